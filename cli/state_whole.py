"""`manyhands state create`, `check` and `copy`: a store of crawls as a whole."""

import argparse
import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from typing import TypeVar

from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from manyhands.cli.consoles import for_people
from manyhands.cli.seeds import UsageError
from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import STATE_COUNTERS
from manyhands.shared.crawl.store.opening import store_at, whole_at
from manyhands.shared.crawl.store.sqlite.one_host import refuse_other_machines
from manyhands.shared.crawl.store.whole.checking import Checked, check_state
from manyhands.shared.crawl.store.whole.copying import copy_state
from manyhands.shared.crawl.store.whole.protocol import WholeStore, facts_of
from manyhands.shared.settings import CrawlSettings
from manyhands.shared.settings.loading import load

SHOWN_DIFFERENCES = 20
# States in one column.
_WAITING = (UrlState.QUEUED,)
_IN_HAND = (UrlState.CLAIMED, UrlState.PARSING)
_DONE = (UrlState.DONE,)

Result = TypeVar("Result")
OnProgress = Callable[[int, int], None]


async def run_create(arguments: argparse.Namespace) -> int:
    settings = load(("crawl",)).settings.crawl
    places = _places(arguments.state, settings)
    wanted: int | None = arguments.shards
    console = for_people()
    with closing(whole_at(places)) as whole:
        _refuse_other_machines(whole, settings)
        known = whole.look()
        shards = None if known is None else facts_of(known).get("shards")
        if shards is not None and wanted not in (None, shards):
            raise UsageError(
                f"{whole.shown} has {shards} shards, not {wanted}: `manyhands state copy --shards"
                f" {wanted}` brings its crawls to a place with another number"
            )
        with closing(store_at(places)) as store, closing(store.open_control()) as control:
            layout = control.layout(shards or wanted or settings.shards)
            done = "made" if shards is None else "there already:"
            console.print(
                f"{done} {whole.shown}, the store {control.tag()} with {layout.shards} shards"
            )
    if layout.shards != settings.shards:
        console.print(f"its services need CRAWL_SHARDS={layout.shards}")
    return 0


async def run_check(arguments: argparse.Namespace) -> int:
    settings = load(("crawl",)).settings.crawl
    console = for_people()
    with closing(whole_at(_places(arguments.state, settings))) as whole:
        checked = await _with_progress(
            console, "shards", lambda on_progress: check_state(whole, on_progress)
        )
    if checked.crawls:
        console.print(crawls_table(checked), soft_wrap=False)
    hidden = len(checked.differences) - SHOWN_DIFFERENCES
    for difference in checked.differences[:SHOWN_DIFFERENCES]:
        console.print(difference)
    if hidden > 0:
        console.print(f"and {hidden:,} more")
    number = len(checked.differences)
    console.print(
        f"{whole.shown}: {number:,} differences"
        if number
        else f"{whole.shown}: all counters agree with the rows of {checked.shards} shards"
    )
    return 1 if number else 0


async def run_copy(arguments: argparse.Namespace) -> int:
    settings = load(("crawl",)).settings.crawl
    console = for_people()
    with ExitStack() as opened:
        source, target = (
            opened.enter_context(closing(whole_at(_places(place, settings))))
            for place in (arguments.source, arguments.target)
        )
        for whole in (source, target):
            _refuse_other_machines(whole, settings)
        copied = await _with_progress(
            console,
            "URLs",
            lambda on_progress: copy_state(source, target, arguments.shards, on_progress),
        )
    if copied is None:
        console.print(f"{source.shown} was copied to {target.shown} before")
        return 0
    console.print(
        f"copied {copied.urls:,} URLs from {source.shown} to {target.shown}, {copied.shards}"
        f" shards; {copied.again:,} that were in flight are fetched again"
    )
    console.print(
        f"{source.shown} is closed. Start the services with CRAWL_STATE set to the copy and"
        f" CRAWL_SHARDS={copied.shards}"
    )
    return 0


def crawls_table(checked: Checked) -> Table:
    table = Table(box=None)
    for name in ("crawl", "state", "URLs", "waiting", "in hand", "done", "other ends"):
        table.add_column(name, justify="left" if name == "state" else "right")
    others = [state for state in UrlState if state not in (*_WAITING, *_IN_HAND, *_DONE)]
    for crawl, state in sorted(checked.crawls.items()):
        found = checked.found[crawl]
        in_columns = [
            sum(found[STATE_COUNTERS[state]] for state in states)
            for states in (_WAITING, _IN_HAND, _DONE, others)
        ]
        numbers = (found["admitted"], *in_columns)
        table.add_row(str(crawl), state, *(f"{number:,}" for number in numbers))
    return table


def _places(given: str | None, settings: CrawlSettings) -> Sequence[str]:
    """Raises UsageError."""
    if given is None:
        places = settings.state
    else:
        try:
            places = CrawlSettings.model_validate({"state": given}).state
        except ValidationError as error:
            # The text of ours, which shows nothing of a URL.
            raise UsageError(str(error.errors()[0]["ctx"]["error"])) from None
    if not places:
        raise UsageError("which store? Name it, or set CRAWL_STATE")
    return places


def _refuse_other_machines(whole: WholeStore, settings: CrawlSettings) -> None:
    if whole.directory is not None:
        refuse_other_machines(whole.directory, settings.lease_s)


async def _with_progress(
    console: Console, unit: str, work: Callable[[OnProgress], Result]
) -> Result:
    """In a thread, so that Ctrl-C is heard: the work ends with its next step then."""
    is_stopped = threading.Event()
    columns = (TextColumn(unit), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    is_hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=is_hidden) as progress:
        task = progress.add_task("", total=None)

        def on_progress(done: int, in_all: int) -> None:
            if is_stopped.is_set():
                raise InterruptedError
            progress.update(task, completed=done, total=in_all)

        try:
            return await asyncio.to_thread(work, on_progress)
        finally:
            is_stopped.set()
