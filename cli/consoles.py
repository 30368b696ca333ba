"""Progress and reports go to stderr; data, and what a command was asked to show, to stdout."""

import sys

from rich.console import Console


def for_people() -> Console:
    """Shows text as it is, without markup that a site may put into its URLs. In a file or a pipe a
    line stays one line; a table needs `soft_wrap=False` there."""
    return _plain(is_stderr=True)


def for_results() -> Console:
    return _plain(is_stderr=False)


def _plain(*, is_stderr: bool) -> Console:
    is_terminal = (sys.stderr if is_stderr else sys.stdout).isatty()
    return Console(
        stderr=is_stderr, markup=False, highlight=False, emoji=False, soft_wrap=not is_terminal
    )
