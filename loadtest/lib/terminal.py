"""What a benchmark shows on a terminal of 80 columns."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from rich.console import Console
from rich.table import Table

from loadtest.lib.document import AnyRun
from loadtest.lib.targets import Verdict

RunType = TypeVar("RunType", bound=AnyRun)


def terminal_table(
    columns: Sequence[str],
    *,
    title: str | None = None,
    caption: str | None = None,
    texts: int = 1,
    wraps_first: bool = False,
) -> Table:
    """Some columns of text, then numbers; only the first may be broken into lines."""
    table = Table(
        title=title,
        title_justify="left",
        caption=caption,
        caption_justify="left",
        box=None,
        pad_edge=False,
    )
    for index, column in enumerate(columns):
        no_wrap = index > 0 or not wraps_first
        table.add_column(column, justify="left" if index < texts else "right", no_wrap=no_wrap)
    return table


def print_verdicts(console: Console, rows: Sequence[Verdict]) -> None:
    for text, found, verdict in rows:
        console.print(f"{verdict}: {text}: {found}")


def print_failed(console: Console, runs: Sequence[RunType], who: Callable[[RunType], str]) -> None:
    """The runs that failed; `who` says whose a run was."""
    for run in runs:
        console.print(f"FAILED {run.cell} round {run.round} {who(run)}: {run.error}")
