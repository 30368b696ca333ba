"""Calls a function for a page and turns what comes of it into what the crawl is told. Whatever the
function does, it costs its own page at the most."""

import asyncio
import traceback
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NamedTuple

from manyhands.shared.crawl.messages import FetchedPage, Setback
from manyhands.shared.crawl.page_fields import RecordKind
from manyhands.worker.jobs.outcomes import DONE, Done, Failed, Retry
from manyhands.worker.page_functions.deaths import MOST_DEATHS, Deaths
from manyhands.worker.page_functions.page import Page
from manyhands.worker.page_functions.registry import PageFunction
from manyhands.worker.page_functions.time_limit import Overdue, TimeLimit, step_by_step
from manyhands.worker.pages.extraction import MAX_LINKS_LENGTH, ExtractedPage
from manyhands.worker.records import FIRST_VISIT, PageRecord, PlainRecord

# A page is fetched so often at the most, as after other failures.
MOST_ATTEMPTS = 3
# Characters.
MAX_REASON_LENGTH = 160
# Of it for the function's name, whose end says most.
MAX_NAME_LENGTH = 80
MAX_DETAIL_LENGTH = 4000
MAX_LINE_LENGTH = 500
# For an async function that is cancelled to end.
GRACE_S = 1.0

CallOutcome = Done | Retry | Failed


class Called(NamedTuple):
    """`where` is the line that failed; `is_overdue`: it took its time, and others have waited."""

    outcome: CallOutcome
    where: str = ""
    is_overdue: bool = False


class Applied(NamedTuple):
    """`found` is the page as the crawl goes on with it; `noted` are URLs to follow before its
    links, with their notes."""

    found: ExtractedPage
    items: tuple[PlainRecord, ...] = ()
    noted: tuple[tuple[str, str], ...] = ()
    setback: Setback | None = None
    is_overdue: bool = False


async def call(
    function: PageFunction, page: Page, limit_s: float, deaths: Deaths | None = None
) -> Called:
    """Raises nothing but CancelledError."""
    limit = TimeLimit(limit_s)
    try:
        if function.is_async:
            await _call_async(function, page, limit, deaths)
        else:
            with _noted(page, deaths), limit:
                returned = function.call(page)
            if returned is not None:
                raise TypeError(f"{function} returned {type(returned).__name__}: emit records")
        _check_links(page)
    except Overdue:
        limit.disarm()
        reason = f"took more than {limit_s:g} s"
        return Called(Failed("Overdue", reason), "", is_overdue=True)
    except Retry as retry:
        return Called(retry)
    except asyncio.CancelledError as error:
        if (task := asyncio.current_task()) is not None and task.cancelling():
            raise
        return Called(Failed.from_exception(error))
    except BaseException as error:
        # All of them: the function may raise anything.
        return Called(Failed.from_exception(error), _where(error))
    return Called(DONE)


async def apply(
    function: PageFunction,
    fetched: FetchedPage,
    found: ExtractedPage,
    *,
    can_emit: bool,
    limit_s: float,
    deaths: Deaths,
) -> Applied:
    """`found` has a record."""
    before = deaths.so_far(fetched.visit)
    if before >= MOST_DEATHS:
        called = Called(Failed("ProcessEnded", f"ended its process {before} times"))
        page = None
    else:
        page = Page(fetched, found, can_emit=can_emit)
        called = await call(function, page, limit_s, deaths)
    deaths.forget(fetched.visit)
    outcome = called.outcome
    if page is None or not isinstance(outcome, Done):
        return came_to_nothing(fetched, found, setback_of(function, fetched, called))._replace(
            is_overdue=called.is_overdue
        )
    asked = page.asked
    counts = {
        "dropped": int(asked.is_dropped),
        "emitted": len(asked.items),
        "followed": len(asked.followed),
        "follow_refused": asked.refused,
    }
    return Applied(
        found._replace(
            record=None if asked.is_dropped else found.record,
            links=page.links,
            counts=(*found.counts, *((name, number) for name, number in counts.items() if number)),
        ),
        items=tuple(asked.items),
        noted=tuple(asked.followed.items()),
    )


def setback_of(function: PageFunction, fetched: FetchedPage, called: Called) -> Setback:
    attempts = fetched.attempts + 1
    outcome, name = called.outcome, str(function)[-MAX_NAME_LENGTH:]
    again_after_s = None
    if isinstance(outcome, Retry):
        reason, detail = f"page function {name}: {outcome.reason}", ""
        if attempts < MOST_ATTEMPTS:
            again_after_s = outcome.after_s
    else:
        assert isinstance(outcome, Failed)
        # Without the message of an exception, which may differ from page to page: errors are
        # grouped by their reason.
        said = called.where and f"{outcome.error_type} ({called.where})"
        reason = f"page function {name}: {said or outcome.message}"
        lines = [line[:MAX_LINE_LENGTH] for line in outcome.backtrace]
        detail = "\n".join(lines)[-MAX_DETAIL_LENGTH:]
    return Setback(
        _stored(reason.partition("\n")[0][:MAX_REASON_LENGTH]),
        _stored(detail),
        again_after_s,
        attempts,
        fetched.status,
    )


def no_functions(fetched: FetchedPage, found: ExtractedPage) -> Applied:
    """The module that its crawl names is not loaded here."""
    reason = f"no page functions of the module {fetched.handlers} in WORKER_HANDLERS of this worker"
    setback = Setback(reason, "", None, fetched.attempts + 1, fetched.status)
    return came_to_nothing(fetched, found, setback)


def came_to_nothing(fetched: FetchedPage, found: ExtractedPage, setback: Setback) -> Applied:
    record = None if setback.again_after_s is not None else _failed_record(fetched, setback)
    return Applied(found._replace(record=record, links=[], entries=(), counts=()), setback=setback)


def _failed_record(fetched: FetchedPage, setback: Setback) -> PageRecord:
    last_line = setback.detail.rpartition("\n")[2]
    return PageRecord(
        id=f"{fetched.visit}.{RecordKind.FAILED}",
        url=fetched.url,
        final_url=fetched.url,
        status=fetched.status,
        content_type=fetched.content_type,
        links=[],
        is_truncated=fetched.is_truncated,
        fetched_at=fetched.fetched_at,
        crawl=fetched.crawl,
        visit=FIRST_VISIT,
        depth=fetched.depth,
        kind=RecordKind.FAILED,
        reason=f"{setback.reason}: {last_line}" if last_line else setback.reason,
    )


async def _call_async(
    function: PageFunction, page: Page, limit: TimeLimit, deaths: Deaths | None
) -> None:
    """In a task of its own: one that catches its cancellation is left behind."""

    async def run() -> None:
        coroutine = function.call(page)
        assert coroutine is not None, "an async function returns a coroutine"
        await step_by_step(coroutine, lambda: _step(page, limit, deaths))

    task = asyncio.create_task(run(), name=str(function))
    try:
        done, _ = await asyncio.wait({task}, timeout=limit.seconds)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if not done:
        task.cancel()
        await asyncio.wait({task}, timeout=GRACE_S)
        raise Overdue
    task.result()


def _noted(page: Page, deaths: Deaths | None) -> AbstractContextManager[None]:
    return nullcontext() if deaths is None else deaths.at(page.visit)


@contextmanager
def _step(page: Page, limit: TimeLimit, deaths: Deaths | None) -> Iterator[None]:
    with _noted(page, deaths), limit:
        yield


def _check_links(page: Page) -> None:
    length = 0
    for link in page.links:
        if not isinstance(link, str):
            raise TypeError(f"page.links has {link!r}, which is no text")
        length += len(link)
    if length > 2 * MAX_LINKS_LENGTH:
        raise ValueError(f"page.links has more than {2 * MAX_LINKS_LENGTH} characters")


def _where(error: BaseException) -> str:
    """The innermost line, with the name of its file."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return "unknown line"
    filename = frames[-1].filename.rpartition("/")[2]
    return f"{filename}, line {frames[-1].lineno}"


def _stored(text: str) -> str:
    """As every database takes it: the function may have put a page's text into its exception."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()
