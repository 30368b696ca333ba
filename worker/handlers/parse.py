"""`parse`: a fetched page → one record with its title and links. `parse_pages`: the same of pages
of a crawl, and one message to the owner of their shards with the links to follow.

Results depend on the job's arguments alone, so a repeat makes the same records and message.
"""

import asyncio
from functools import partial
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
from manyhands.shared.jobs import Job
from manyhands.shared.jobtypes import PARSE_QUEUE, PARSE_VERSION
from manyhands.worker.jobs.context import JobContext
from manyhands.worker.jobs.outcomes import Dead
from manyhands.worker.jobs.registry import job
from manyhands.worker.pages.bodies import BadBody
from manyhands.worker.pages.extraction import MAX_LINKS_LENGTH, extract, read
from manyhands.worker.pages.html import MAX_LINKS
from manyhands.worker.pages.page_ids import page_id, parsed_id
from manyhands.worker.pages.page_records import outcome_of, record_of
from manyhands.worker.records import PageRecord, PlainRecord

_ARRIVAL = TypeAdapter(Arrival)

# Of a few pages with the longest URLs a message is as large as one of a crawl.
GATHER_S = 0.05
MOST_TOGETHER = 200


class Answers:
    """To those who wait for pages of fetch jobs: one message for all pages that were parsed within
    a moment, from the job of the first of them. A message for each would cost as much as the
    parsing. If that job is cut short, the others' answers are lost, as answers may be: their pages
    count as parsed after a while. State: what is gathered, by queue."""

    def __init__(self) -> None:
        self._gathered: dict[str, list[ParsedPage]] = {}

    async def with_others(self, queue: str, page: ParsedPage, jid: str) -> list[Job]:
        """The message, or nothing if another job takes the page along."""
        gathered = self._gathered.get(queue)
        if gathered is not None:
            gathered.append(page)
            if len(gathered) == MOST_TOGETHER:
                del self._gathered[queue]
            return []
        pages = self._gathered[queue] = [page]
        try:
            await asyncio.sleep(GATHER_S)
        finally:
            if self._gathered.get(queue) is pages:
                del self._gathered[queue]
        return [parsed_job(ParsedMessage(pages=pages), queue, jid)]


ANSWERS = Answers()


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
        arrived = None if arrival is None else _ARRIVAL.validate_python(arrival)
        look = read(body, content_type, final_url, MAX_LINKS)
    except (BadBody, InvalidUrl, ValidationError) as error:
        raise Dead(str(error)) from error
    kind, reason = outcome_of(status, content_type)
    page = FetchedPage(
        visit=page_id(context.id),
        crawl=NO_CRAWL,
        key="",
        url=final_url,
        depth=0,
        status=status,
        content_type=content_type,
        robots_tag="",
        obeys_nofollow=False,
        is_truncated=is_truncated,
        fetched_at=fetched_at,
        body=body,
        arrival=arrived,
        kind=kind,
        reason=reason,
    )
    context.emit(record_of(page, look, (*(cuts or ()), *look.said.cuts), asked_url=url))
    match context.answer_to:
        case [str(queue), str(key), str(fetched)]:
            parsed = ParsedPage(NO_CRAWL, key, fetched, 0, [], "")
            jid = parsed_id(context.id)
            context.push_later(partial(ANSWERS.with_others, queue, parsed, jid))


@job(PARSE_PAGES, queue=PARSE_QUEUE, version=PAGES_VERSION)
async def parse_pages(answer_to: str, pages: list[FetchedPage], context: JobContext) -> None:
    if context.deliveries > 1 and len(pages) > 1:
        # One of them may have killed its worker: it must not take the others along again.
        for number, page in enumerate(pages):
            alone = PagesMessage(answer_to=answer_to, pages=[page])
            context.push(pages_job(alone, PARSE_QUEUE, f"{context.id}.{number}"))
        return
    parsed = []
    for page in pages:
        found = _parse_page(page, context)
        if page.kind == RecordKind.PAGE:
            parsed.append(found)
        # Others have their turn between two pages.
        await asyncio.sleep(0)
    if answer_to == NO_ANSWER:
        return
    messages = grouped(parsed, _links_length, most_size=MAX_LINKS_LENGTH)
    for number, together in enumerate(messages):
        message = ParsedMessage.model_construct(pages=together)
        context.push(parsed_job(message, answer_to, f"{parsed_id(context.id)}.{number}"))


def _links_length(page: ParsedPage) -> int:
    return sum(map(len, page.links))


def _parse_page(page: FetchedPage, context: JobContext) -> ParsedPage:
    # A page of no crawl has nothing but its record: without a place for it the job fails.
    is_recorded = page.crawl == NO_CRAWL or context.can_emit(PageRecord)
    found = extract(page, is_recorded=is_recorded)
    if found.record is not None:
        context.emit(found.record)
    if found.entries and context.can_emit(PlainRecord):
        for entries in found.entries:
            context.emit(entries)
    told = (found.depth, found.links, found.problem, found.cuts, found.counts)
    return ParsedPage(page.crawl, page.key, page.url, *told)
