"""Where people read: stderr. What is data goes to stdout."""

import sys

from rich.console import Console


def for_people() -> Console:
    """Text is shown as it is, whatever a site puts into its URLs. In a file or a pipe a line stays
    one line; a table needs `soft_wrap=False` there."""
    is_terminal = sys.stderr.isatty()
    return Console(
        stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=not is_terminal
    )
