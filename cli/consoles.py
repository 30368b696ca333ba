"""Text for people goes to stderr, data to stdout."""

import sys

from rich.console import Console


def for_people() -> Console:
    """Shows text as it is, without markup that a site may put into its URLs. In a file or a pipe a
    line stays one line; a table needs `soft_wrap=False` there."""
    is_terminal = sys.stderr.isatty()
    return Console(
        stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=not is_terminal
    )
