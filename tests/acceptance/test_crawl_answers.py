"""What a crawl leaves of everything it asked for, by a real worker: a record of each URL that came
to no page, and each answer in the archive."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fastwarc.warc import ArchiveIterator, WarcRecordType

from devservers import BrokerServer
from manyhands.shared.crawl.spec import ScopeSpec
from manyhands.shared.crawl.states import CrawlState
from tests.conftest import StartWorker
from tests.support.crawling import Crawls
from tests.support.file_sinks import jsonl_lines, warc_files, warcio_complaints
from tests.support.local_site import LocalSite, answer, redirect
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(180)

# Longer than what is read of a body that nobody wants.
LONG = bytes(100_000)
LINKS = ("/moved", "/gone", "/short.png", "/long.png", "/private", "/busy", "http://10.0.0.1/")
FRONT = "".join(f"<a href={link}>x</a>" for link in LINKS).encode()


@pytest.fixture
async def site() -> AsyncIterator[LocalSite]:
    async with LocalSite() as site:
        yield site


def serve(site: LocalSite) -> None:
    site.answers["/"] = answer(200, FRONT)
    site.answers["/robots.txt"] = answer(200, b"User-agent: *\nDisallow: /private", "text/plain")
    site.answers["/moved"] = redirect("/page")
    site.answers["/page"] = answer(200, b"a page")
    site.answers["/gone"] = answer(404, b"it was here")
    site.answers["/short.png"] = answer(200, b"a picture", "image/png")
    site.answers["/long.png"] = answer(200, LONG, "image/png")

    async def busy(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_first = site.paths.count("/busy") == 1
        writer.write(answer(500, b"not now") if is_first else answer(200, b"at last"))
        await writer.drain()

    site.answers["/busy"] = busy


async def test_every_answer_is_archived_and_whatever_is_no_page_has_a_record(
    broker_process: BrokerServer, start_worker: StartWorker, tmp_path: Path, site: LocalSite
) -> None:
    serve(site)
    sinks = f"jsonl:{tmp_path}/pages.ndjson,warc:{tmp_path}/archive"
    crawls = Crawls(tmp_path / "state", [f"{site.url}/"], {"ALLOW_NETS": "127.0.0.0/8"}, 4)
    crawl = crawls.start(scope=ScopeSpec(within="listed", hosts=("127.0.0.1", "10.0.0.1")))
    worker = start_worker(
        broker_process.url, **crawls.settings("crawl:1x20 parse:1x20", SINKS=sinks)
    )

    ended = await crawls.ended(crawl, 100)
    assert ended.state is CrawlState.COMPLETED
    records = {}

    def all_recorded() -> bool:
        records.update({line["url"].removeprefix(site.url): line for line in jsonl_lines(tmp_path)})
        return len(records) >= 9

    # A crawl does not wait for the records of what came to no page.
    await eventually(all_recorded, 60)
    worker.terminate()
    assert await worker.ended(60) == 0

    told = {url: (line["kind"], line["reason"], line["status"]) for url, line in records.items()}
    assert told == {
        "/": ("page", None, 200),
        "/page": ("page", None, 200),
        "/moved": ("redirect", None, 302),
        "/busy": ("page", None, 200),
        "/gone": ("failed", "http 404", 404),
        "/short.png": ("other", "content type image/png", 200),
        "/long.png": ("other", "content type image/png", 200),
        "/private": ("refused", "robots.txt", 0),
        "http://10.0.0.1/": ("failed", "forbidden address", 0),
    }
    assert records["/moved"]["final_url"] == f"{site.url}/page"
    assert records["/long.png"]["size"] == len(LONG)

    archived: Counter[tuple[str, bytes, str | None]] = Counter()
    for file in warc_files(tmp_path / "archive"):
        with file.open("rb") as stream:
            for record in ArchiveIterator(stream, record_types=WarcRecordType.response):
                path = record.headers["WARC-Target-URI"].removeprefix(site.url)
                body, cut = record.reader.read(), record.headers.get("WARC-Truncated")
                archived[path, body, cut] += 1
    expected: dict[str, list[tuple[bytes, str | None]]] = {
        "/robots.txt": [(b"User-agent: *\nDisallow: /private", None)],
        "/": [(FRONT, None)],
        "/moved": [(b"", None)],
        "/page": [(b"a page", None)],
        "/gone": [(b"it was here", None)],
        "/short.png": [(b"a picture", None)],
        "/long.png": [(b"", "unspecified")],
        "/busy": [(b"not now", None), (b"at last", None)],
    }
    assert archived == Counter((path, *one) for path, all_of in expected.items() for one in all_of)
    assert warcio_complaints(warc_files(tmp_path / "archive")) == ""
