"""The sinks that write files: records for them, and what other programs find in their files."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import obstore
import pyarrow.dataset
import pyarrow.parquet
import zstandard
from fastwarc.warc import ArchiveIterator, WarcRecordType
from obstore.store import S3Store

from devservers import S3Server
from manyhands.worker.records import Capture, Record
from manyhands.worker.sinks.files import jsonl, parquet, warc
from manyhands.worker.sinks.files.batches import SealedAt
from manyhands.worker.sinks.files.file_sink import FileSink
from manyhands.worker.sinks.files.jsonl import JsonlSink
from manyhands.worker.sinks.files.parquet import ParquetSink
from manyhands.worker.sinks.files.warc import WarcSink
from tests.support.sink_records import page

REQUEST = b"GET /%d HTTP/1.1\r\nHost: site.example\r\nUser-Agent: tests\r\n\r\n"
HEAD = (
    b"HTTP/1.1 200 OK\r\nServer: tests\r\nContent-Type: text/html\r\n"
    b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
)


def capture(number: int, **changed: Any) -> Capture:
    made: dict[str, Any] = {
        "id": page(number).id,
        "url": page(number).url,
        "fetched_at": "2026-11-17T05:44:33.123456Z",
        "address": "192.0.2.7",
        "request": REQUEST % number,
        "head": HEAD,
        "body": b"<p>%d</p>" % number + b"ab" * (number % 500),
        "is_truncated": False,
        "crawl": 7,
        "depth": 2,
    }
    return Capture(**(made | changed))


def warc_files(directory: Path) -> list[Path]:
    """Those that are complete."""
    return sorted([*directory.glob("*.warc.gz"), *directory.glob("*.warc.zst")])


def warc_ids(directory: Path) -> Counter[str]:
    """Of pages all of whose records are there."""
    ids: Counter[str] = Counter()
    for file in warc_files(directory):
        kinds: Counter[str] = Counter()
        with file.open("rb") as stream:
            for record in ArchiveIterator(stream, parse_http=False):
                kinds[record.headers["WARC-Type"]] += 1
                if record.record_type == WarcRecordType.metadata:
                    ids[fields_of(record.reader.read())["id"]] += 1
        pages = kinds["metadata"]
        assert kinds == {"warcinfo": 1, "request": pages, "response": pages, "metadata": pages}
    return ids


def fields_of(block: bytes) -> dict[str, str]:
    """Of a block of the type application/warc-fields."""
    return dict(line.split(": ", 1) for line in block.decode().splitlines())


def warcio_complaints(files: Iterable[Path]) -> str:
    """What `warcio check` says of them; nothing when all is well."""
    checked = subprocess.run(
        [sys.executable, "-m", "warcio.cli", "check", *map(str, files)],
        capture_output=True,
        text=True,
    )
    return checked.stdout + checked.stderr


def jsonl_ids(directory: Path) -> Counter[str]:
    return Counter(line["id"] for line in jsonl_lines(directory))


def jsonl_lines(directory: Path) -> list[Any]:
    lines: list[Any] = []
    for file in sorted([*directory.glob("*.ndjson"), *directory.glob("*.zst")]):
        with file.open("rb") as stream:
            text = stream.read()
        if file.suffix == ".zst":
            unpacked = zstandard.ZstdDecompressor().stream_reader(text, read_across_frames=True)
            text = unpacked.read()
        assert text == b"" or text.endswith(b"\n")
        lines += map(json.loads, text.splitlines())
    return lines


def parquet_ids(directory: Path) -> Counter[str]:
    """As pyarrow and DuckDB read it, each page with its links."""
    if not (directory / "pages").exists():
        return Counter()
    ids = _by_pyarrow(directory / "pages", "id")
    assert ids == _by_duckdb(directory / "pages", "id")
    edges = _by_pyarrow(directory / "edges", "page_id")
    assert edges == _by_duckdb(directory / "edges", "page_id")
    assert edges == Counter({id: count * len(page(0).links) for id, count in ids.items()})
    return ids


def _by_pyarrow(directory: Path, column: str) -> Counter[str]:
    table = pyarrow.parquet.read_table(directory, columns=[column])
    return Counter(table[column].to_pylist())


def _by_duckdb(directory: Path, column: str) -> Counter[str]:
    query = f"SELECT {column}, count(*) FROM '{directory}/**/*.parquet' GROUP BY ALL"
    with duckdb.connect() as connection:
        return Counter(dict(connection.sql(query).fetchall()))


@dataclass(slots=True, frozen=True)
class Kind:
    """One kind of sink. `local` is its URL in a directory; `sealed_at` is small, so that a few
    batches of few records make several files."""

    make: Callable[[str], FileSink]
    local: str
    record: Callable[[int], Record]
    ids: Callable[[Path], Counter[str]]
    module: Any
    sealed_at: SealedAt


KINDS = {
    "warc": Kind(WarcSink, "warc:{}", capture, warc_ids, warc, SealedAt(5000, 900)),
    "parquet": Kind(ParquetSink, "parquet:{}", page, parquet_ids, parquet, SealedAt(12_000, 900)),
    "jsonl": Kind(JsonlSink, "jsonl:{}/pages.ndjson", page, jsonl_ids, jsonl, SealedAt(1500, 900)),
}


def on_s3(kind: str, bucket: str, spool: Path) -> str:
    return f"{kind}+s3://{bucket}/some/where?spool={spool}"


def credentials(server: S3Server) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_ACCESS_KEY_ID": server.access_key,
        "AWS_SECRET_ACCESS_KEY": server.secret_key,
        "AWS_REGION": server.region,
    }


def download(server: S3Server, bucket: str, directory: Path) -> Path:
    """All objects under the prefix of `on_s3`, as files."""
    store = S3Store(
        bucket,
        prefix="some/where",
        endpoint=server.endpoint,
        access_key_id=server.access_key,
        secret_access_key=server.secret_key,
        region=server.region,
        client_options={"allow_http": True},
    )
    for chunk in obstore.list(store):
        for found in chunk:
            path = directory / found["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(bytes(obstore.get(store, found["path"]).bytes()))
    return directory
