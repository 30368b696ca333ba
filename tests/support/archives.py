"""WARC files for tests: records byte by byte, packed as files have them, at known offsets."""

import base64
import gzip
import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import zstandard

from manyhands.worker.warc.streams import Aborted

Pack = Callable[[bytes], bytes]

DATE = "2026-11-01T10:20:30Z"


def as_it_is(data: bytes) -> bytes:
    return data


def gzipped(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def zstandard_packed(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


PACKS: dict[str, Pack] = {"gzip": gzipped, "zstd": zstandard_packed, "plain": as_it_is}


def sha1(data: bytes) -> str:
    return f"sha1:{base64.b32encode(hashlib.sha1(data).digest()).decode()}"


def record_id(number: int) -> str:
    return f"urn:uuid:00000000-0000-4000-8000-{number:012}"


def warc_record(
    block: bytes,
    *,
    kind: str = "response",
    content_type: str = "application/http; msgtype=response",
    number: int | None = None,
    headers: dict[str, str | bytes] | None = None,
    **more: str | bytes,
) -> bytes:
    """`WARC_Target_URI` is a header's name; one with an empty value is left out."""
    all_headers: dict[str, str | bytes] = {
        "WARC-Type": kind,
        "WARC-Record-ID": "" if number is None else f"<{record_id(number)}>",
        "WARC-Date": DATE,
        "WARC-Block-Digest": sha1(block),
        "Content-Type": content_type,
        "Content-Length": str(len(block)),
    }
    for name, value in ((headers or {}) | more).items():
        all_headers[name.replace("_", "-")] = value
    lines = [b"WARC/1.1"]
    for name, value in all_headers.items():
        if value:
            lines.append(name.encode() + b": " + _bytes(value))
    return b"\r\n".join([*lines, b"", block]) + b"\r\n\r\n"


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def http_answer(
    body: bytes, status: int = 200, content_type: str = "text/html", **headers: str
) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Type: {content_type}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def page(number: int, size: int = 0) -> bytes:
    """HTML that is another for each number; the padding hardly shrinks when it is packed."""
    padding = random.Random(number).randbytes(size // 2).hex().encode()
    return (
        b"<!doctype html><title>Page %d</title><a href='/next/%d'>next</a><p>" % (number, number)
        + padding
    )


def page_record(number: int, size: int = 0, **more: str | bytes) -> bytes:
    headers: dict[str, str | bytes] = {"WARC_Target_URI": f"http://example.com/{number}"}
    return warc_record(http_answer(page(number, size)), number=number, headers=headers | more)


def request_record(number: int) -> bytes:
    return warc_record(
        b"GET / HTTP/1.1\r\n\r\n",
        kind="request",
        content_type="application/http; msgtype=request",
        WARC_Target_URI=f"http://example.com/{number}",
    )


@dataclass(slots=True)
class Archive:
    """`offsets` has that of each record, and the file's end."""

    data: bytes
    offsets: list[int]

    @classmethod
    def of(cls, records: Sequence[bytes], pack: Pack = gzipped) -> "Archive":
        """Each record is packed by itself."""
        data = b""
        offsets = [0]
        for record in records:
            data += pack(record)
            offsets.append(len(data))
        return cls(data, offsets)

    @classmethod
    def of_pages(cls, count: int, pack: Pack = gzipped, size: int = 2000) -> "Archive":
        return cls.of([page_record(number, size) for number in range(count)], pack)


@dataclass(slots=True)
class MemoryStream:
    """A `ByteStream`. `piece` is how much is read at a time."""

    data: bytes
    piece: int = 5000
    at: int = 0
    seeks: list[int] = field(default_factory=list)
    is_aborted: bool = False

    def read(self) -> bytes:
        if self.is_aborted:
            raise Aborted
        piece = self.data[self.at : self.at + self.piece]
        self.at += len(piece)
        return piece

    def seek(self, offset: int) -> None:
        self.seeks.append(offset)
        self.at = offset

    def close(self) -> None:
        """Nothing is open."""

    def abort(self) -> None:
        self.is_aborted = True
