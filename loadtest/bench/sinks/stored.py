"""What is in the sinks after a run, as other programs read it: every record, as often as it is
there."""

import asyncio
import io
import json
import urllib.request
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import obstore
import pyarrow.dataset
import pyarrow.parquet
from fastwarc.warc import ArchiveIterator, WarcRecordType
from obstore.store import S3Store

from devservers import S3Server
from loadtest.lib.errors import RunError

SAMPLES = 3
ANSWER_TIMEOUT_S = 30.0
# Elasticsearch gives no more at once.
HITS = 10_000


def check_each_once(where: str, wanted: Collection[str], found: Iterable[str]) -> None:
    """Raise RunError unless it is exactly these, each once."""
    counted = Counter(found)
    known = set(wanted)
    wrong = {
        "missing": sorted(known - counted.keys()),
        "unknown": sorted(counted.keys() - known),
        "more than once": sorted(one for one, count in counted.items() if count > 1),
    }
    told = [
        f"{len(some)} {what}, such as {', '.join(some[:SAMPLES])}"
        for what, some in wrong.items()
        if some
    ]
    if told:
        raise RunError(f"{where} has {counted.total()} of {len(known)}: {'; '.join(told)}")


def warc_urls(directory: Path) -> list[str]:
    """Of all pages in the files that count: complete, or still open."""
    files = sorted([*directory.glob("*.warc.gz"), *directory.glob("*.warc.gz.open")])
    return [url for file in files for url in _answers(file)]


def _answers(file: Path) -> Iterator[str]:
    with file.open("rb") as stream:
        for record in ArchiveIterator(stream, record_types=WarcRecordType.response):
            url = record.headers["WARC-Target-URI"]
            # Archives have those, too.
            if not url.endswith("/robots.txt"):
                yield url


def parquet_urls(directory: Path) -> list[str]:
    table = pyarrow.dataset.dataset(directory / "pages", partitioning="hive").to_table(["url"])
    urls: list[str] = table.column("url").to_pylist()
    return urls


def postgres_rows(url: str, column: str) -> list[str]:
    return [row[column] for row in asyncio.run(_fetch(url, f"SELECT {column} FROM pages"))]


def make_schema(url: str, name: str) -> None:
    asyncio.run(_fetch(url, f"CREATE SCHEMA {name}"))


async def _fetch(url: str, statement: str) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetch(statement)
    finally:
        await connection.close()


def s3_ids(server: S3Server, bucket: str, prefix: str) -> list[str]:
    """Of the pages in all Parquet objects there."""
    store = S3Store(
        bucket,
        prefix=f"{prefix}/pages",
        endpoint=server.endpoint,
        access_key_id=server.access_key,
        secret_access_key=server.secret_key,
        region=server.region,
        client_options={"allow_http": True},
    )
    found: list[str] = []
    for objects in obstore.list(store):
        for one in objects:
            content = io.BytesIO(obstore.get(store, one["path"]).bytes())
            table = pyarrow.parquet.read_table(content, columns=["id"])
            found += table.column("id").to_pylist()
    return found


def elasticsearch_ids(url: str, index: str) -> list[str]:
    """Of all documents of the index."""
    _ask(url, f"/{index}/_refresh")
    query = {"size": HITS, "_source": False, "sort": ["_doc"]}
    page = _ask(url, f"/{index}/_search?scroll=1m", query)
    found: list[str] = []
    while hits := page["hits"]["hits"]:
        found += [hit["_id"] for hit in hits]
        page = _ask(url, "/_search/scroll", {"scroll": "1m", "scroll_id": page["_scroll_id"]})
    return found


def _ask(url: str, path: str, body: dict[str, Any] | None = None) -> Any:
    request = urllib.request.Request(
        url + path,
        method="POST",
        data=json.dumps(body).encode() if body else None,
        headers={"Content-Type": "application/json"},
    )
    # Whatever proxy the caller has is not for the loopback.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=ANSWER_TIMEOUT_S) as answer:
        return json.load(answer)
