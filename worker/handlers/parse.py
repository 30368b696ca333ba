"""`parse`: a fetched page → one record with its title and links. `parse_pages`: the same of several
pages of crawls and fetch jobs, and one message to the owner of their shards: these are parsed, and
those are the links to follow. A crawl may name a module whose functions get its pages, see
`page_functions`.

Results depend on the job's arguments alone, so a repeat makes the same records and message, as far
as the functions of others do so.
"""

import asyncio
from typing import Any

from pydantic import TypeAdapter, ValidationError

from manyhands.shared.crawl.arrival import Arrival
from manyhands.shared.crawl.messages import (
    NO_ANSWER,
    NO_CRAWL,
    PAGES_VERSION,
    PARSE_PAGES,
    FetchedPage,
    PagesMessage,
    ParsedMessage,
    ParsedPage,
    pages_job,
    parsed_job,
)
from manyhands.shared.crawl.page_fields import RecordKind
from manyhands.shared.errors import InvalidUrl
from manyhands.shared.grouping import grouped
from manyhands.shared.jobtypes import PARSE_QUEUE, PARSE_VERSION
from manyhands.worker.jobs.context import JobContext
from manyhands.worker.jobs.outcomes import Dead
from manyhands.worker.jobs.registry import job, setup
from manyhands.worker.jobs.setup import ProcessSetup
from manyhands.worker.page_functions.calls import Applied, apply, no_functions
from manyhands.worker.page_functions.deaths import Deaths
from manyhands.worker.page_functions.registry import PAGE_FUNCTIONS, first_for
from manyhands.worker.pages.bodies import BadBody
from manyhands.worker.pages.extraction import (
    MAX_LINKS_LENGTH,
    ExtractedPage,
    extract,
    extract_of_job,
)
from manyhands.worker.pages.html import is_html
from manyhands.worker.pages.page_ids import page_id, parsed_id
from manyhands.worker.pages.parse_jobs import page_of_job
from manyhands.worker.records import PageRecord, PlainRecord

_ARRIVAL = TypeAdapter(Arrival)
# To push what is left of a job before its reservation ends.
MARGIN_S = 5.0

# Made by `read_settings`: how long a page function may take.
FUNCTION_S: float
DEATHS = Deaths()


@setup
def read_settings(process: ProcessSetup) -> None:
    global FUNCTION_S
    FUNCTION_S = process.settings.crawl.page_function_s


# Not in a thread: the parser holds Python's lock for the few milliseconds that a page takes, so the
# loop would wait as long, plus the thread switch.
@job("parse", version=PARSE_VERSION)
async def parse(
    url: str,
    final_url: str,
    status: int,
    content_type: str,
    body: str,
    is_truncated: bool,
    fetched_at: str,
    context: JobContext,
    cuts: list[str] | None = None,
    arrival: list[Any] | None = None,
) -> None:
    try:
        page = page_of_job(
            fetch_id=page_id(context.id),
            key="",
            asked_url=url,
            url=final_url,
            status=status,
            content_type=content_type,
            body=body,
            is_truncated=is_truncated,
            fetched_at=fetched_at,
            cuts=tuple(cuts or ()),
            arrival=None if arrival is None else _ARRIVAL.validate_python(arrival),
        )
        context.emit(extract_of_job(page))
    except (BadBody, InvalidUrl, ValidationError) as error:
        raise Dead(str(error)) from error


@job(PARSE_PAGES, queue=PARSE_QUEUE, version=PAGES_VERSION)
async def parse_pages(answer_to: str, pages: list[FetchedPage], context: JobContext) -> None:
    if context.deliveries > 1 and len(pages) > 1:
        # One of them may have killed its worker: it must not take the others along again.
        for number, page in enumerate(pages):
            alone = PagesMessage(answer_to=answer_to, pages=[page])
            context.push(pages_job(alone, PARSE_QUEUE, f"{context.id}.{number}"))
        return
    parsed = []
    for number, page in enumerate(pages):
        found, is_overdue = await _parse_page(page, context)
        if page.kind == RecordKind.PAGE:
            parsed.append(found)
        rest = pages[number + 1 :]
        if rest and (is_overdue or not _has_time_for(rest[0], context)):
            # Other jobs here have waited, too. These pages get a reservation of their own.
            again = PagesMessage(answer_to=answer_to, pages=rest)
            context.push(pages_job(again, PARSE_QUEUE, f"{context.id}+{number}"))
            break
        # Others have their turn between two pages.
        await asyncio.sleep(0)
    if answer_to == NO_ANSWER:
        return
    messages = grouped(parsed, _links_length, most_size=MAX_LINKS_LENGTH)
    for number, together in enumerate(messages):
        message = ParsedMessage.model_construct(pages=together)
        context.push(parsed_job(message, answer_to, f"{parsed_id(context.id)}.{number}"))


def _has_time_for(page: FetchedPage, context: JobContext) -> bool:
    if not page.handlers:
        return True
    return asyncio.get_running_loop().time() + FUNCTION_S + MARGIN_S < context.deadline


def _links_length(page: ParsedPage) -> int:
    length = sum(map(len, page.links))
    if page.noted:
        length += sum(len(url) + len(note) for url, note in page.noted)
    return length


async def _parse_page(page: FetchedPage, context: JobContext) -> tuple[ParsedPage, bool]:
    """And whether a page function took too long."""
    if page.is_of_job:
        return _parse_page_of_job(page, context), False
    # A page of no crawl has nothing but its record: without a place for it the job fails.
    is_recorded = page.crawl == NO_CRAWL or context.can_emit(PageRecord)
    applied = Applied(extract(page, is_recorded=is_recorded or page.handlers != ""))
    if page.handlers and page.kind == RecordKind.PAGE:
        applied = await _with_function(page, applied.found, context)
    found = applied.found
    if found.record is not None and is_recorded:
        context.emit(found.record)
    for item in applied.items:
        context.emit(item)
    if found.entries and context.can_emit(PlainRecord):
        for entries in found.entries:
            context.emit(entries)
    told = (found.depth, found.links, found.problem, found.cuts, found.counts)
    more = (applied.noted, applied.setback)
    return ParsedPage(page.crawl, page.key, page.url, *told, *more), applied.is_overdue


async def _with_function(page: FetchedPage, found: ExtractedPage, context: JobContext) -> Applied:
    functions = PAGE_FUNCTIONS.of_module(page.handlers)
    if not functions:
        return no_functions(page, found)
    function = first_for(functions, page.url)
    if function is None or found.record is None or not is_html(page.content_type):
        return Applied(found)
    return await apply(
        function,
        page,
        found,
        can_emit=context.can_emit(PlainRecord),
        limit_s=FUNCTION_S,
        deaths=DEATHS,
    )


def _parse_page_of_job(page: FetchedPage, context: JobContext) -> ParsedPage:
    problem = ""
    try:
        context.emit(extract_of_job(page))
    except (BadBody, InvalidUrl) as error:
        problem = f"not parsed: {error}"
    return ParsedPage(page.crawl, page.key, page.url, page.depth, [], problem)
