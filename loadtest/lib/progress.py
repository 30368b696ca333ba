"""Work through the runs of a benchmark with a progress bar."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from loadtest.lib.cell_keys import Keyed
from loadtest.lib.document import AnyRun
from loadtest.lib.errors import RunError, WireError
from loadtest.lib.runs import Step

S = TypeVar("S")
R = TypeVar("R")
RunType = TypeVar("RunType", bound=AnyRun)
KeyedType = TypeVar("KeyedType", bound=Keyed)
SideType = TypeVar("SideType")


def run_steps(
    console: Console,
    steps: Iterable[Step[KeyedType, SideType]],
    rounds: int,
    *,
    who: Callable[[SideType], str],
    run: Callable[[Step[KeyedType, SideType]], RunType],
    result: Callable[[RunType], str],
) -> tuple[list[RunType], bool]:
    """Do every run, as `do_all` does; `who` is the title of a side, `result` says what a run
    gave."""
    return do_all(
        console,
        list(steps),
        label=lambda step: f"{step.cell.key}  round {step.round}/{rounds}  {who(step.side)}",
        run=run,
        error=lambda run: run.error,
        result=result,
    )


def do_all(
    console: Console,
    steps: Sequence[S],
    *,
    label: Callable[[S], str],
    run: Callable[[S], R],
    error: Callable[[R], str | None],
    result: Callable[[R], str],
) -> tuple[list[R], bool]:
    """Do every step; return what they gave, and whether all were done.

    Ctrl-C ends it early and keeps what there is. What each run gave is printed where there is no
    terminal to draw a bar on; its error always.
    """
    done: list[R] = []
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        speed_estimate_period=600,
    )
    with progress:
        task = progress.add_task("", total=len(steps))
        try:
            for step in steps:
                progress.update(task, description=label(step))
                found = run(step)
                done.append(found)
                progress.advance(task)
                problem = error(found)
                if not console.is_terminal or problem:
                    progress.print(f"{label(step)}: {problem or result(found)}")
            return done, True
        except KeyboardInterrupt:
            progress.print("interrupted: reporting the runs that are done")
        except (RunError, WireError, OSError) as reason:
            # Not one run's failure, which `run` returns: the bench itself is not clean now.
            progress.print(f"ended early, reporting the runs that are done: {reason}")
    return done, False
