"""An archive → its records, one after the other, and what of it could not be read.

From WARC files the responses, from WET files the texts (`conversion`), from WAT files the metadata
of responses (`metadata` in JSON). Everything else is skipped. A record with a wrong digest is kept
and marked: others decide whether a page with a wrong byte is of use.

Blocking; for a separate thread. Digests are computed in other threads meanwhile: in the same one
they would add half again to the time of unpacking and decoding.
"""

import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple, cast

from fastwarc.warc import (
    ArchiveIterator,
    HeaderMap,
    WarcRecord,
    WarcRecordPayloadReader,
    conversion,
    metadata,
    response,
)

from manyhands.worker.warc.digests import Digest, Expected, Hashing, expected_digest, look_at
from manyhands.worker.warc.frames import (
    FALSE_STARTS,
    LOOK_BYTES,
    Damaged,
    Frame,
    Packing,
    detect,
    next_start,
)
from manyhands.worker.warc.payloads import parsed_head, unchunked
from manyhands.worker.warc.streams import ByteStream, Window

KINDS = response | conversion | metadata
WAT_TYPE = "application/json"
BUFFER_BYTES = 64 * 1024
# Read at a time of a record's part that is not kept.
SKIP_BYTES = 1024 * 1024
# The longest head of an HTTP answer that is searched for its end.
MAX_HEAD_BYTES = 256 * 1024
# Bytes handed to the digest threads at a time, and how many such batches ahead. Each thread waits
# long for Python's lock and computes without it, so two keep up with the one that decodes.
DIGEST_THREADS = 2
BATCH_BYTES = 1024 * 1024
BATCHES_AHEAD = 4

_HTTP = "application/http"
_NO_HEAD: tuple[list[bytes], bytes] = ([], b"")
_EMPTY_LINES = (b"\r\n", b"\n", b"")
_NOT_ASCII = re.compile(rb"[^\x21-\x7e]")


class Position(NamedTuple):
    """Where to continue: the offset of a member, and how many of its records are done. A member has
    one record, except in files that were packed as a whole."""

    offset: int = 0
    skip: int = 0


@dataclass(slots=True)
class ArchivedRecord:
    """`head` is the status line and headers of an HTTP answer, empty for all else; `status` is 0
    then. `body` is as it was sent, up to a limit; `length` is all of it. `url` is escaped where it
    is not ASCII. `digest` is as the file says it; `after` is where the next record begins."""

    at: Position
    after: Position
    kind: str
    id: str
    url: str
    date: str
    ip: str
    status: int
    content_type: str
    transfer_encoding: str
    content_encoding: str
    robots_tag: str
    head: bytes
    body: bytes
    length: int
    is_truncated: bool
    digest: str
    digest_state: Digest = Digest.NONE


@dataclass(slots=True, frozen=True)
class Damage:
    """Bytes from which no record was read. A new record begins at `end`, or the file ends."""

    offset: int
    end: int
    reason: str


Item = ArchivedRecord | Damage


def read_archive(
    stream: ByteStream, start: Position, max_body_bytes: int, *, checks_digests: bool = True
) -> Iterator[Item]:
    """Raises NotAnArchive, and what the stream raises."""
    items = _Reading(stream, start, max_body_bytes, checks_digests).items()
    if not checks_digests:
        yield from cast("Iterator[Item]", items)
        return
    with ThreadPoolExecutor(DIGEST_THREADS, thread_name_prefix="digests") as threads:
        yield from _with_digests(items, threads)


class _Unchecked(NamedTuple):
    """A record whose digest is still to be computed."""

    record: ArchivedRecord
    expected: Expected


def _with_digests(
    items: Iterator[_Unchecked | Item], threads: ThreadPoolExecutor
) -> Iterator[Item]:
    """In the same order."""
    under_way: deque[Future[list[Item]]] = deque()
    batch: list[_Unchecked | Item] = []
    size = 0
    for item in items:
        batch.append(item)
        size += len(item.record.body) if isinstance(item, _Unchecked) else 0
        if size >= BATCH_BYTES:
            under_way.append(threads.submit(_check, batch))
            batch, size = [], 0
            if len(under_way) > BATCHES_AHEAD:
                yield from under_way.popleft().result()
    for done in under_way:
        yield from done.result()
    yield from _check(batch)


def _check(batch: list[_Unchecked | Item]) -> list[Item]:
    checked: list[Item] = []
    for item in batch:
        if isinstance(item, _Unchecked):
            record, expected = item
            record.digest_state = look_at(expected, record.head, record.body, unchunked)
            checked.append(record)
        else:
            checked.append(item)
    return checked


class _Reading:
    """State: the window on the file."""

    def __init__(
        self, stream: ByteStream, start: Position, max_body_bytes: int, checks_digests: bool
    ) -> None:
        self._window = Window(stream, start.offset)
        self._start = start
        self._max_body_bytes = max_body_bytes
        self._checks_digests = checks_digests

    def items(self) -> Iterator[_Unchecked | Item]:
        window = self._window
        if self._start.offset and not window.peek(1):
            # The last chunk ended with the file.
            return
        packing = detect(window)
        skip = self._start.skip
        barren = 0
        while True:
            packing.skip(window)
            offset = window.position
            if not window.peek(1):
                return
            barren += 1
            try:
                if barren > FALSE_STARTS:
                    _check_begins(packing, window)
                for item in self._records(packing.frame(window), offset, skip):
                    barren = 0
                    yield item
            except Damaged as damaged:
                yield self._past(packing, offset, str(damaged))
            skip = 0

    def _past(self, packing: Packing, offset: int, reason: str) -> Damage:
        """Its length may be wrong, so the search for the next one starts at its beginning."""
        self._window.seek(offset + 1)
        next_start(self._window, packing)
        return Damage(offset, self._window.position, reason)

    def _records(self, frame: Frame, offset: int, skip: int) -> Iterator[_Unchecked | Item]:
        """A record is known to be whole when what follows it is: it is held back until then."""
        held: _Unchecked | ArchivedRecord | None = None
        number = 0
        try:
            # Of a file it calls `read` and `tell` only.
            archive = ArchiveIterator(
                cast("BinaryIO", frame),
                KINDS,
                parse_http=False,
                stream_detect=False,
                buffer_size=BUFFER_BYTES,
            )
            for record in archive:
                number += 1
                if held is not None:
                    yield held
                    held = None
                if number > skip and _is_wanted(record):
                    held = self._made(record, Position(offset, number - 1))
        except OSError as error:
            # Raised by FastWARC; a stream raises other errors.
            raise Damaged(str(error)) from None
        frame.finish()
        if held is not None:
            whole = held.record if isinstance(held, _Unchecked) else held
            whole.after = Position(self._window.position)
            yield held

    def _made(self, record: WarcRecord, at: Position) -> _Unchecked | ArchivedRecord:
        headers = _by_name(record.headers)
        content_type = headers.get(b"content-type", b"").decode("latin-1")
        lines, body = _http_head(record.reader) if content_type.startswith(_HTTP) else _NO_HEAD
        http, status = parsed_head(lines)
        head = b"".join(lines)
        length = record.content_length - len(head)
        # No more than there is: a buffer of this size is allocated and cleared first.
        body += record.reader.read(min(length, self._max_body_bytes) - len(body))
        block_digest = headers.get(b"warc-block-digest", b"").decode("latin-1")
        payload_digest = headers.get(b"warc-payload-digest", b"").decode("latin-1")
        expected = None
        if self._checks_digests:
            expected = expected_digest(block_digest, payload_digest)
        digest_state = Digest.NONE
        if length > len(body):
            digest_state = _read_on(record.reader, expected, head, body, length)
            expected = None
        made = ArchivedRecord(
            at=at,
            after=Position(at.offset, at.skip + 1),
            kind=headers.get(b"warc-type", b"").decode("latin-1"),
            id=_uri_of(headers.get(b"warc-record-id", b"")),
            url=_uri_of(headers.get(b"warc-target-uri", b"")),
            date=headers.get(b"warc-date", b"").decode("latin-1"),
            ip=headers.get(b"warc-ip-address", b"").decode("latin-1"),
            status=status,
            content_type=http.get(b"content-type", b"").decode("latin-1") if head else content_type,
            transfer_encoding=http.get(b"transfer-encoding", b"").decode("latin-1"),
            content_encoding=http.get(b"content-encoding", b"").decode("latin-1"),
            robots_tag=http.get(b"x-robots-tag", b"").decode("latin-1"),
            head=head,
            body=body,
            length=length,
            is_truncated=length > len(body) or b"warc-truncated" in headers,
            digest=payload_digest or block_digest,
            digest_state=digest_state,
        )
        return made if expected is None else _Unchecked(made, expected)


def _check_begins(packing: Packing, window: Window) -> None:
    """After many members without a wanted record: some files have only requests, but members may
    also be empty, a hundred thousand in a megabyte. Raises Damaged."""
    if not packing.begins(window.peek(LOOK_BYTES)[:LOOK_BYTES]):
        raise Damaged("one of many members without a record")


def _is_wanted(record: WarcRecord) -> bool:
    if record.record_type != metadata:
        return True
    return (record.headers.get("Content-Type") or "").startswith(WAT_TYPE)


def _by_name(headers: HeaderMap) -> dict[bytes, bytes]:
    """All at once: looking up one takes as long as getting all. Of several with one name, the
    last."""
    return {name.lower(): value for name, value in headers.items_bytes()}


def _http_head(reader: WarcRecordPayloadReader) -> tuple[list[bytes], bytes]:
    """Status line and headers with the empty line at their end; or else the bytes read so far,
    which belong to the body."""
    line = reader.readline()
    if not line.startswith(b"HTTP/"):
        return [], line
    lines = [line]
    size = len(line)
    while line not in _EMPTY_LINES:
        if size > MAX_HEAD_BYTES:
            return [], b"".join(lines)
        line = reader.readline()
        lines.append(line)
        size += len(line)
    return lines, b""


def _read_on(
    reader: WarcRecordPayloadReader,
    expected: Expected | None,
    head: bytes,
    body: bytes,
    length: int,
) -> Digest:
    """Skip the part of a record that is not kept. Raises Damaged when the record is too short."""
    hashing = None if expected is None else Hashing(expected, head)
    left = length
    piece = body
    while piece:
        left -= len(piece)
        if hashing is not None:
            hashing.feed(piece)
        piece = reader.read(min(left, SKIP_BYTES))
    if left:
        raise Damaged("it is shorter than it says")
    return Digest.NONE if hashing is None else hashing.state()


def _uri_of(raw: bytes) -> str:
    """As it is, if it is ASCII; else UTF-8 or whatever it is, escaped byte by byte. Some tools put
    it in angle brackets."""
    raw = raw.strip().removeprefix(b"<").removesuffix(b">")
    return _NOT_ASCII.sub(lambda found: b"%%%02X" % found[0][0], raw).decode("ascii")
