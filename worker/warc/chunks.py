"""A chunk of an archive → the pages to parse, and where the next chunk begins.

The end of a chunk depends on the file alone, never on time: a repeat after a crash makes the same
pages in the same order. Blocking; for a thread.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pybase64
import zstandard

from manyhands.shared.crawl.messages import NO_CRAWL, FetchedPage
from manyhands.shared.errors import InvalidUrl
from manyhands.shared.urls import parse_url
from manyhands.worker.pages.bodies import LEVEL
from manyhands.worker.pages.html import is_html
from manyhands.worker.warc.digests import Digest
from manyhands.worker.warc.payloads import page_of
from manyhands.worker.warc.reading import ArchivedRecord, Damage, Position, read_archive
from manyhands.worker.warc.streams import ByteStream
from manyhands.worker.warc.wat import wat_page

# A chunk ends after this many bytes of the file, or of pages as packed in jobs.
CHUNK_BYTES = 64 * 1024 * 1024
PAGES_BYTES = 16 * 1024 * 1024


@dataclass(slots=True)
class Chunk:
    """`counts` are of records, by what became of them. `next` is None at the end of the file."""

    pages: list[FetchedPage] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    bad_digests: list[int] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)
    next: Position | None = None
    size: int = 0

    def add(self, page: FetchedPage) -> None:
        self.pages.append(page)
        self.size += len(page.body)


class ChunkReader:
    """State: what pages are packed with; not to be shared by threads."""

    def __init__(self, source: str, *, max_bytes: int, truncate_bytes: int) -> None:
        """`source` is used in the ids of records that have none. At most `max_bytes` of a page are
        read, and `truncate_bytes` parsed."""
        self._source = source
        self._max_bytes = max_bytes
        self._truncate_bytes = truncate_bytes
        self._compress = zstandard.ZstdCompressor(level=LEVEL).compress

    def read(self, stream: ByteStream, start: Position) -> Chunk:
        """Raises NotAnArchive, and what the stream raises."""
        chunk = Chunk()
        for item in read_archive(stream, start, self._max_bytes):
            if isinstance(item, Damage):
                chunk.damages.append(item)
                after = Position(item.end)
            else:
                self._take(chunk, item)
                after = item.after
            if chunk.size >= PAGES_BYTES or after.offset - start.offset >= CHUNK_BYTES:
                chunk.next = after
                break
        return chunk

    def _take(self, chunk: Chunk, record: ArchivedRecord) -> None:
        if record.digest_state is Digest.BAD:
            chunk.bad_digests.append(record.at.offset)
        take = _TAKES.get(record.kind)
        became = take(self, chunk, record) if take is not None else "other"
        chunk.counts[became] += 1

    def _take_response(self, chunk: Chunk, record: ArchivedRecord) -> str:
        if not 200 <= record.status < 300:
            return "other status"
        if not is_html(record.content_type):
            return "other type"
        html, is_cut = page_of(
            record.body, record.transfer_encoding, record.content_encoding, self._max_bytes
        )
        return self._add(
            chunk, record, record.status, record.content_type, record.robots_tag, html, is_cut
        )

    def _take_metadata(self, chunk: Chunk, record: ArchivedRecord) -> str:
        page = wat_page(record.body)
        if page is None:
            return "no page"
        if not 200 <= page.status < 300:
            return "other status"
        if not is_html(page.content_type):
            return "other type"
        # Written anew, and not as the page was.
        content_type = "text/html; charset=utf-8"
        return self._add(
            chunk, record, page.status, content_type, page.robots_tag, page.html, is_cut=False
        )

    def _take_text(self, _chunk: Chunk, _record: ArchivedRecord) -> str:
        """It has neither a title nor a link: the parse stage could not use it."""
        return "text"

    def _add(
        self,
        chunk: Chunk,
        record: ArchivedRecord,
        status: int,
        content_type: str,
        robots_tag: str,
        html: bytes,
        is_cut: bool,
    ) -> str:
        try:
            url = parse_url(record.url)
        except InvalidUrl:
            return "bad URL"
        chunk.add(
            FetchedPage(
                visit=record.id or f"{self._source}#{record.at.offset}.{record.at.skip}",
                crawl=NO_CRAWL,
                key="",
                url=url.text,
                depth=0,
                status=status,
                content_type=content_type,
                robots_tag=robots_tag,
                obeys_nofollow=False,
                is_truncated=record.is_truncated or is_cut or len(html) > self._truncate_bytes,
                fetched_at=record.date,
                body=self._packed(html[: self._truncate_bytes]),
            )
        )
        return "page"

    def _packed(self, html: bytes) -> str:
        """As worker.bodies does it, whose compressor belongs to the event loop's thread."""
        return pybase64.b64encode_as_string(self._compress(html))


_TAKES: dict[str, Callable[[ChunkReader, Chunk, ArchivedRecord], str]] = {
    "response": ChunkReader._take_response,
    "metadata": ChunkReader._take_metadata,
    "conversion": ChunkReader._take_text,
}
