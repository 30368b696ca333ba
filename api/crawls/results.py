"""The records of crawls, read back from a sink: for the routes. Everything here raises Problem.

Files and databases are read in threads, a piece at a time and no further than the client takes.
"""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import orjson

from manyhands.api.crawls.paging import from_opaque, not_a_cursor, opaque
from manyhands.api.problems import Problem, unavailable
from manyhands.shared.http.limits import PAGE_BYTES
from manyhands.shared.results.choice import Choice
from manyhands.shared.results.formats import Format, beginning
from manyhands.shared.results.opening import source_among, why_none
from manyhands.shared.results.pieces import Mark, Pieces
from manyhands.shared.results.protocol import ResultsAway, Source, WrongPlace

THREADS = 4
MOST_ROWS = 10_000
# A page ends after so many seconds, even if nothing was found: a file may hold many other crawls.
LOOKS_FOR_S = 2.0
# Of a file for each of its writers, of which there are a thousand at most.
MAX_CURSOR_LENGTH = 40_000

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Wanted:
    crawl: int
    choice: Choice
    form: Format
    cursor: str | None

    @property
    def beginning(self) -> bytes:
        """Only of what begins: what goes on with a cursor can be put behind it."""
        return beginning(self.form, self.choice.fields) if self.cursor is None else b""


@dataclass(frozen=True, slots=True)
class ResultPage:
    data: bytes
    cursor: str
    has_more: bool


class Results:
    """State: the threads."""

    def __init__(self, urls: Sequence[str]) -> None:
        """Raises ConfigError."""
        self._urls = urls
        self._source = source_among(urls)
        self._threads = ThreadPoolExecutor(THREADS, "results")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def page(self, wanted: Wanted, limit: int) -> ResultPage:
        """At most so many rows, or as many as fill an answer or are found in a short time."""
        until = time.monotonic() + LOOKS_FOR_S
        data, rows, is_last = [wanted.beginning], 0, False
        async with self._pieces(wanted) as (source, pieces):
            while not is_last and rows < limit and sum(map(len, data)) < PAGE_BYTES:
                piece = await self._in_thread(partial(pieces.next, limit - rows, until))
                data.append(piece.data)
                rows += piece.rows
                is_last = piece.is_last
                if time.monotonic() > until:
                    break
            cursor = _cursor(source, wanted, pieces.mark)
        return ResultPage(b"".join(data), cursor, not is_last)

    @asynccontextmanager
    async def stream(self, wanted: Wanted) -> AsyncIterator[tuple[str, AsyncIterator[bytes]]]:
        """All that is durable now, and the cursor behind that."""
        async with self._pieces(wanted) as (source, pieces):
            yield _cursor(source, wanted, pieces.end), self._all_of(wanted, pieces)

    async def _all_of(self, wanted: Wanted, pieces: Pieces) -> AsyncIterator[bytes]:
        yield wanted.beginning
        while True:
            until = time.monotonic() + LOOKS_FOR_S
            piece = await self._in_thread(partial(pieces.next, MOST_ROWS, until))
            yield piece.data
            if piece.is_last:
                return

    @asynccontextmanager
    async def _pieces(self, wanted: Wanted) -> AsyncIterator[tuple[Source, Pieces]]:
        source = self._source
        if source is None:
            raise Problem(409, why_none(self._urls))
        mark = None if wanted.cursor is None else _mark(source, wanted)
        place = None if mark is None else mark.place

        def opened() -> Pieces:
            reader = source.read(wanted.crawl, place, wanted.choice.needed)
            return Pieces(reader, wanted.choice, wanted.form, mark)

        opening = asyncio.ensure_future(self._in_thread(opened))
        try:
            # Also if nobody waits any more: what is opened is closed.
            yield source, await asyncio.shield(opening)
        finally:
            opening.add_done_callback(self._close)

    def _close(self, opening: asyncio.Future[Pieces]) -> None:
        if not opening.cancelled() and opening.exception() is None:
            self._threads.submit(opening.result().close)

    async def _in_thread(self, work: Callable[[], _Answer]) -> _Answer:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except ResultsAway as error:
            raise unavailable(f"the records cannot be read: {error}", retry_after_s=2) from error
        except WrongPlace as error:
            raise not_a_cursor(str(error)) from error


def _cursor(source: Source, wanted: Wanted, mark: Mark) -> str:
    return opaque(orjson.dumps([_listing(source, wanted), mark.given, mark.place]))


def _mark(source: Source, wanted: Wanted) -> Mark:
    assert wanted.cursor is not None
    try:
        listing, given, place = orjson.loads(from_opaque(wanted.cursor))
    except (TypeError, ValueError):
        raise not_a_cursor() from None
    if listing != _listing(source, wanted) or type(given) is not int or given < 0:
        raise not_a_cursor()
    return Mark(place, given)


def _listing(source: Source, wanted: Wanted) -> list[Any]:
    """Of what a cursor is one. Where the sink is concerns no client."""
    sink = hashlib.blake2b(source.name.encode(), digest_size=8).hexdigest()
    return [sink, wanted.crawl, str(wanted.choice.listing)]
