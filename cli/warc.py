"""`manyhands warc`: WARC files, or lists of them, as jobs to the API."""

import argparse
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from manyhands.cli.api_client import api_client
from manyhands.cli.consoles import for_people
from manyhands.cli.seeds import UsageError
from manyhands.cli.submit import NDJSON, Sending, kind_of, send, tell
from manyhands.shared.errors import InvalidUrl
from manyhands.shared.warc_places import (
    FileAt,
    InvalidPlace,
    ObjectAt,
    parse_destination,
    parse_source,
)

LINES_AT_ONCE = 500
LIST_TIMEOUT_S = 60.0
# The beginning of a list, which shows how it is packed.
BEGINNING_BYTES = 4096

_LIST = re.compile(r"\.(paths|txt|list|lst)(\.(gz|zst))?$", re.I)


async def run_warc(arguments: argparse.Namespace) -> int:
    """Raises UsageError or ApiFailed."""
    console = for_people()
    if arguments.export is not None:
        _check(parse_destination, arguments.export, "--export")
    sources = [
        source for name in arguments.files for source in await sources_of(name, arguments.prefix)
    ]
    if not sources:
        raise UsageError("the arguments name no WARC file")
    with _progress(console, len(sources)) as sent:
        async with api_client(arguments.api, arguments.key) as client:
            order = Sending("/jobs", {"Content-Type": NDJSON})
            answer = await send(client, order, job_lines(sources, arguments.export, sent))
    return tell(console, answer, lambda line: sources[line - 1])


async def sources_of(name: str, prefix: str) -> list[str]:
    """A WARC file itself, or all that a list names. Raises UsageError."""
    place = _check(parse_source, name, "FILE")
    if not _LIST.search(str(place)):
        return [_path_of(name) if isinstance(place, FileAt) else name]
    if isinstance(place, ObjectAt):
        raise UsageError(f"{name}: lists on S3 cannot be read: download it first")
    data = _read(Path(name)) if isinstance(place, FileAt) else await _fetched(name)
    return listed_sources(name, data, prefix)


def listed_sources(name: str, data: bytes, prefix: str) -> list[str]:
    """The places that a list names, one per line; the prefix goes before relative paths. Raises
    UsageError."""
    unpacking = kind_of(data[:BEGINNING_BYTES]).unpacker()
    if unpacking is not None:
        data = unpacking.feed(data)
        unpacking.end()
    sources = []
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        if "://" not in text and not text.startswith("/"):
            text = prefix + text
        _check(parse_source, text, f"{name} line {number}")
        sources.append(text)
    return sources


async def job_lines(
    sources: Sequence[str], destination: str | None, sent: Callable[[int], None]
) -> AsyncIterator[bytes]:
    """A line of NDJSON for each source, many at a time."""
    for start in range(0, len(sources), LINES_AT_ONCE):
        together = sources[start : start + LINES_AT_ONCE]
        yield b"".join(orjson.dumps(_job(source, destination)) + b"\n" for source in together)
        sent(len(together))


def _job(source: str, destination: str | None) -> dict[str, Any]:
    if destination is None:
        return {"jobtype": "warc", "args": {"source": source}}
    return {"jobtype": "export", "args": {"source": source, "destination": destination}}


def _check(parse: Callable[[str], Any], text: str, where: str) -> Any:
    try:
        return parse(text)
    except (InvalidPlace, InvalidUrl) as error:
        raise UsageError(f"{where}: {error}") from None


def _path_of(name: str) -> str:
    """The worker has another current directory."""
    path = Path(name).absolute()
    if not path.is_file():
        raise UsageError(f"{name}: no such file (one of the worker's machine goes into a list)")
    return str(path)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


async def _fetched(url: str) -> bytes:
    try:
        async with httpx.AsyncClient(timeout=LIST_TIMEOUT_S, follow_redirects=True) as client:
            answer = await client.get(url)
            answer.raise_for_status()
    except httpx.HTTPStatusError as error:
        raise UsageError(f"{url}: the server answered {error.response.status_code}") from None
    except httpx.HTTPError as error:
        raise UsageError(f"{url}: {str(error) or type(error).__name__}") from None
    return answer.content


@contextmanager
def _progress(console: Console, total: int) -> Iterator[Callable[[int], None]]:
    columns = (TextColumn("jobs"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=total)
        yield lambda count: progress.advance(task, count)
