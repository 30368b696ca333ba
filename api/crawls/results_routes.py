"""The routes of what crawls have found: pages, and the links between them."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from starlette.types import Receive, Scope, Send

from manyhands.api.crawls.results import MAX_CURSOR_LENGTH, MOST_ROWS, Results, Wanted
from manyhands.api.crawls.routes import CrawlId, Crawls
from manyhands.api.parts import Parts
from manyhands.api.problems import Problem, unprocessable
from manyhands.api.routes import PartsOf, held, too_many_pages
from manyhands.shared.errors import OverBudget
from manyhands.shared.http.limits import PAGE_BYTES
from manyhands.shared.logs import get_logger
from manyhands.shared.results.choice import (
    Choice,
    Listing,
    UnknownName,
    chosen_fields,
    chosen_kinds,
)
from manyhands.shared.results.formats import MEDIA_TYPES, Format
from manyhands.shared.urls import MAX_HOST_LENGTH

# What a stream holds: a piece that is read, and one that is sent.
STREAM_BYTES = 1024 * 1024
_CSV = "text/csv"
_HEADERS = {
    "Next-Cursor": {
        "description": "Goes on behind this answer, also with what is written later",
        "schema": {"type": "string"},
    },
    "Link": {
        "description": 'rel="next", if there was more when a page was made',
        "schema": {"type": "string"},
    },
}
_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A row for each record or link",
        "headers": _HEADERS,
        "content": {
            "application/x-ndjson": {"schema": {"type": "string"}},
            _CSV: {"schema": {"type": "string"}},
        },
    }
}

router = APIRouter(tags=["crawls"])


class Question:
    """What both listings are asked. FastAPI makes one for each request."""

    def __init__(
        self,
        crawl: CrawlId,
        cursor: Annotated[
            str | None,
            Query(
                min_length=1,
                max_length=MAX_CURSOR_LENGTH,
                description="Next-Cursor of an earlier answer; without one: from the beginning",
            ),
        ] = None,
        limit: Annotated[
            int | None,
            Query(ge=1, le=MOST_ROWS, description="A page of so many rows; without it: all"),
        ] = None,
        format: Annotated[
            Format | None, Query(description="Otherwise Accept says it, and NDJSON is the default")
        ] = None,
        fields: Annotated[
            str | None, Query(description="Names with commas between them; without it: all")
        ] = None,
        kind: Annotated[
            str | None, Query(description="page, other or failed, or several with commas")
        ] = None,
        status: Annotated[int | None, Query(ge=0, le=999)] = None,
        host: Annotated[str | None, Query(min_length=1, max_length=MAX_HOST_LENGTH)] = None,
        accept: Annotated[str, Header(include_in_schema=False)] = "",
    ) -> None:
        self._crawl = crawl
        self._cursor = cursor
        self.limit = limit
        self._form = format or (Format.CSV if _prefers_csv(accept) else Format.NDJSON)
        self._fields = fields
        self._kind = kind
        self._status = status
        self._host = host

    def wanted(self, listing: Listing) -> Wanted:
        """Raises Problem."""
        try:
            fields = chosen_fields(listing, self._fields)
        except UnknownName as error:
            raise unprocessable(f"fields: {error}", field="query.fields") from None
        try:
            kinds = chosen_kinds(self._kind)
        except UnknownName as error:
            raise unprocessable(f"kind: {error}", field="query.kind") from None
        host = None if self._host is None else self._host.lower()
        choice = Choice(listing, fields, kinds, self._status, host)
        return Wanted(self._crawl, choice, self._form, self._cursor)


QuestionOf = Annotated[Question, Depends()]


@router.get("/crawls/{crawl:int}/pages", response_class=Response, responses=_ANSWER)
async def get_pages(
    crawl: CrawlId, question: QuestionOf, request: Request, crawls: Crawls, parts: PartsOf
) -> Response:
    """The records of its pages and of what else was answered, as far as they are durable: all, or a
    page of them. In no particular order; each once, also over many requests with cursors."""
    await crawls.require(crawl)
    return await _answer(parts, request, question.wanted(Listing.PAGES), question.limit)


@router.get("/crawls/{crawl:int}/links", response_class=Response, responses=_ANSWER)
async def get_links(
    crawl: CrawlId, question: QuestionOf, request: Request, crawls: Crawls, parts: PartsOf
) -> Response:
    """The links of its pages: from, to, text and rel. Filters are about the page."""
    await crawls.require(crawl)
    return await _answer(parts, request, question.wanted(Listing.LINKS), question.limit)


async def _answer(parts: Parts, request: Request, wanted: Wanted, limit: int | None) -> Response:
    parts.refuse_if_draining()
    if limit is not None:
        return await _page(parts, request, wanted, limit)
    results: Results = request.app.state.results
    async with AsyncExitStack() as stack:
        try:
            stack.enter_context(parts.pages.hold(STREAM_BYTES))
        except OverBudget:
            raise too_many_pages() from None
        cursor, pieces = await stack.enter_async_context(results.stream(wanted))
        # So that what cannot be read is told as a problem, and not by half an answer.
        first = await anext(pieces) + await anext(pieces)
        headers = {"next-cursor": cursor}
        rest = _Rest(parts, first, pieces, stack.pop_all())
        return _Stream(rest, MEDIA_TYPES[wanted.form], headers)
    raise AssertionError("the stack raises what it catches")


async def _page(parts: Parts, request: Request, wanted: Wanted, limit: int) -> Response:
    results: Results = request.app.state.results
    try:
        with parts.pages.hold(PAGE_BYTES):
            page = await results.page(wanted, limit)
    except OverBudget:
        raise too_many_pages() from None
    answer = held(parts, page.data, MEDIA_TYPES[wanted.form])
    answer.headers["next-cursor"] = page.cursor
    if page.has_more:
        following = request.url.include_query_params(cursor=page.cursor)
        answer.headers["link"] = f'<{following.path}?{following.query}>; rel="next"'
    return answer


def _prefers_csv(accept: str) -> bool:
    """Of what clients send: a list, with the best first."""
    kinds = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    return _CSV in kinds and not any("json" in kind for kind in kinds[: kinds.index(_CSV)])


class _Rest:
    """The pieces of a stream, until the client is gone or the service ends. `opened` is closed with
    them."""

    def __init__(
        self, parts: Parts, first: bytes, pieces: AsyncIterator[bytes], opened: AsyncExitStack
    ) -> None:
        self._parts = parts
        self._first = first
        self._pieces = pieces
        self._opened = opened

    async def send_all(self, receive: Receive, send: Send) -> bool:
        """Whether that was all."""
        gone = asyncio.ensure_future(_until_gone(receive))
        try:
            async with self._opened:
                await _send_piece(send, self._first)
                async for piece in self._pieces:
                    if gone.done() or self._parts.is_draining:
                        return False
                    await _send_piece(send, piece)
        except Problem as problem:
            get_logger("api").error("an answer of records was cut", why=problem.detail)
            return False
        finally:
            gone.cancel()
        return True


class _Stream(Response):
    """Without its end, if not all could be sent: the server then hangs up, and the client sees that
    it has not got all."""

    def __init__(self, rest: _Rest, media_type: str, headers: Mapping[str, str]) -> None:
        super().__init__(media_type=media_type, headers=headers)
        del self.headers["content-length"]
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        if await self._rest.send_all(receive, send):
            await send({"type": "http.response.body", "body": b""})


async def _send_piece(send: Send, piece: bytes) -> None:
    if piece:
        await send({"type": "http.response.body", "body": piece, "more_body": True})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
