"""What is in the sinks after a crawl, as other programs read it: URLs, each as often as it is
there."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import asyncpg
import pyarrow.dataset
from fastwarc.warc import ArchiveIterator, WarcRecordType


def warc_files(directory: Path) -> list[Path]:
    """Those that count: complete, or still open."""
    return sorted([*directory.glob("*.warc.gz"), *directory.glob("*.warc.gz.open")])


def warc_urls(directory: Path) -> Counter[str]:
    urls: Counter[str] = Counter()
    for file in warc_files(directory):
        with file.open("rb") as stream:
            for record in ArchiveIterator(stream, record_types=WarcRecordType.response):
                urls[record.headers["WARC-Target-URI"]] += 1
    return urls


def warcio_complains(directory: Path) -> str:
    """What `warcio check` says of all files; nothing when all is well."""
    files = [str(file) for file in warc_files(directory)]
    checked = subprocess.run(
        [sys.executable, "-m", "warcio.cli", "check", *files], capture_output=True, text=True
    )
    return checked.stdout + checked.stderr if checked.returncode else ""


def parquet_urls(directory: Path) -> Counter[str]:
    table = pyarrow.dataset.dataset(directory / "pages", partitioning="hive").to_table(["url"])
    return Counter(table.column("url").to_pylist())


def edge_pages(directory: Path) -> set[str]:
    """Ids of the pages that have edges."""
    table = pyarrow.dataset.dataset(directory / "edges", partitioning="hive").to_table(["page_id"])
    return set(table.column("page_id").to_pylist())


async def postgres_urls(url: str) -> Counter[str]:
    connection = await asyncpg.connect(url)
    try:
        rows = await connection.fetch("SELECT url FROM pages")
    finally:
        await connection.close()
    return Counter(row["url"] for row in rows)
