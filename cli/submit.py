"""`manyhands submit`: a file of URLs or jobs to the API, as a stream."""

import argparse
import sys
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import orjson
import zstandard
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)

from manyhands.cli.api_client import Api, ApiFailed, api_client
from manyhands.cli.consoles import for_people
from manyhands.cli.seeds import UsageError

CHUNK_BYTES = 64 * 1024
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
PLAIN, NDJSON = "text/plain", "application/x-ndjson"
URLS_ARE = "fetch"
SHOWN_ERRORS = 10
# A key with a rate limit is held back for as long as it takes.
TIMEOUT_S = 600.0


class Member(Protocol):
    """The unpacker of one file, from zlib or zstandard."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


class Unpacking:
    """Unpacks one file, or several that were joined. State: the one being read."""

    def __init__(self, make: Callable[[], Member]) -> None:
        self._make = make
        self._member: Member | None = None

    def feed(self, data: bytes) -> bytes:
        """Raises UsageError."""
        out = b""
        while data:
            if self._member is None or self._member.eof:
                self._member = self._make()
            try:
                out += self._member.decompress(data)
            except (zlib.error, zstandard.ZstdError) as error:
                raise UsageError(f"the file cannot be unpacked: {error}") from None
            data = self._member.unused_data if self._member.eof else b""
        return out

    def end(self) -> None:
        """Raises UsageError when there should be more."""
        if self._member is not None and not self._member.eof:
            raise UsageError("the packed file is cut off: its whole lines are queued")


@dataclass(slots=True, frozen=True)
class Kind:
    """What a file is, judged by its beginning: how it is packed, whether its lines are JSON, and
    whether these are whole jobs or only arguments."""

    encoding: str
    content_type: str
    are_arguments: bool = False

    def unpacker(self) -> Unpacking | None:
        match self.encoding:
            case "gzip":
                return Unpacking(lambda: zlib.decompressobj(zlib.MAX_WBITS | 16))
            case "zstd":
                return Unpacking(lambda: zstandard.ZstdDecompressor().decompressobj())
            case _:
                return None


def kind_of(beginning: bytes) -> Kind:
    encoding = ""
    if beginning.startswith(GZIP):
        encoding = "gzip"
    elif beginning.startswith(ZSTD):
        encoding = "zstd"
    unpacking = Kind(encoding, PLAIN).unpacker()
    text = beginning if unpacking is None else unpacking.feed(beginning)
    line = text.lstrip().partition(b"\n")[0]
    if not line.startswith(b"{"):
        return Kind(encoding, PLAIN)
    return Kind(encoding, NDJSON, are_arguments=b'"jobtype"' not in line)


async def run_submit(arguments: argparse.Namespace) -> int:
    console = for_people()
    with opened(arguments.file) as file:
        beginning = file.read(CHUNK_BYTES)
        if not beginning:
            raise UsageError(f"{arguments.file} is empty")
        kind = kind_of(beginning)
        order = sending(kind, arguments.type, arguments.crawl)
        with _progress(console, arguments.file) as sent:
            chunks = _chunks(file, beginning, sent)
            async with api_client(arguments.api, arguments.key) as client:
                answer = await send(client, order, chunks)
    return tell(console, answer, lambda line: f"line {line}")


@dataclass(slots=True, frozen=True)
class Sending:
    path: str
    headers: Mapping[str, str]
    # The type that lines of arguments are wrapped with; None: they are sent as they are.
    wrap: bytes | None = None
    unpacking: Unpacking | None = None


def sending(kind: Kind, jobtype: str, crawl: int | None) -> Sending:
    """Raises UsageError when the options do not fit the file."""
    headers = {"Content-Type": kind.content_type}
    if kind.encoding:
        headers["Content-Encoding"] = kind.encoding
    if crawl is not None:
        if kind.content_type == NDJSON and not kind.are_arguments:
            raise UsageError('the file has jobs, not seeds: it must have URLs or {"url": ...}')
        return Sending(f"/crawls/{crawl}/seeds?last=true", headers)
    if not kind.are_arguments:
        if kind.content_type == PLAIN and jobtype != URLS_ARE:
            raise UsageError(f"lines of text are URLs to {URLS_ARE}, not arguments of {jobtype}")
        return Sending("/jobs", headers)
    wrap = b'{"jobtype":' + orjson.dumps(jobtype) + b',"args":'
    return Sending("/jobs", {"Content-Type": NDJSON}, wrap, kind.unpacker())


@contextmanager
def opened(name: str) -> Iterator[BinaryIO]:
    """`-` is stdin. Raises UsageError."""
    if name == "-":
        yield sys.stdin.buffer
        return
    try:
        with Path(name).open("rb") as file:
            yield file
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from error


async def _chunks(
    file: BinaryIO, beginning: bytes, sent: Callable[[int], None]
) -> AsyncIterator[bytes]:
    chunk = beginning
    while chunk:
        yield chunk
        sent(len(chunk))
        chunk = file.read(CHUNK_BYTES)


async def send(client: Api, order: Sending, chunks: AsyncIterator[bytes]) -> Mapping[str, Any]:
    """What became of the lines, also when not all were taken. Raises ApiFailed."""
    content = chunks if order.wrap is None else wrapped(chunks, order.wrap, order.unpacking)
    try:
        answer: Mapping[str, Any] = await client.ask(
            "POST",
            order.path,
            content=content,
            headers=order.headers,
            timeout=TIMEOUT_S,
        )
    except ApiFailed as error:
        if "accepted" not in error.problem:
            raise
        return error.problem
    return answer


async def wrapped(
    chunks: AsyncIterator[bytes], wrap: bytes, unpacking: Unpacking | None
) -> AsyncIterator[bytes]:
    """Each line as the arguments of a job; lines keep their numbers."""
    rest = b""
    async for chunk in chunks:
        data = chunk if unpacking is None else unpacking.feed(chunk)
        *lines, rest = (rest + data).split(b"\n")
        if lines:
            yield b"".join(_wrapped_line(line, wrap) for line in lines)
    if unpacking is not None:
        unpacking.end()
    if rest:
        yield _wrapped_line(rest, wrap)


def _wrapped_line(line: bytes, wrap: bytes) -> bytes:
    stripped = line.strip()
    return wrap + stripped + b"}\n" if stripped else b"\n"


def tell(console: Console, answer: Mapping[str, Any], name_of: Callable[[int], str]) -> int:
    """Print what became of the lines; returns the exit code. `name_of` gives a line's name."""
    for error in answer["errors"][:SHOWN_ERRORS]:
        console.print(f"{name_of(error['line'])}: {error['detail']}")
    hidden = answer["refused"] - len(answer["errors"][:SHOWN_ERRORS])
    if hidden > 0:
        console.print(f"and {hidden:,} more")
    console.print(f"accepted {answer['accepted']:,}, refused {answer['refused']:,}")
    if "next_line" in answer:
        console.print(
            f"ended early: {answer['detail']}; from line {answer['next_line']} on nothing was read"
        )
        for name in ("unqueued_lines", "unknown_lines"):
            if answer[name]:
                console.print(f"{name.replace('_', ' ')}: {answer[name]}")
    is_whole = "next_line" not in answer and not answer["refused"]
    return 0 if is_whole else 1


@contextmanager
def _progress(console: Console, name: str) -> Iterator[Callable[[int], None]]:
    total = None if name == "-" else Path(name).stat().st_size
    columns = (TextColumn(name, markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        task = progress.add_task("", total=total)
        yield lambda count: progress.advance(task, count)
