"""Code of one's own in a crawl, with real workers: its records are those of the same program for
Scrapy, and whatever it does costs its own page."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from devservers import BrokerServer
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.model import ErrorGroup
from tests.conftest import StartWorker
from tests.support.cli_command import ROOT, run_cli
from tests.support.crawling import CONTACT, HANDLERS, Crawls
from tests.support.quotes_site import AUTHORS, QUOTES, write_quotes_site
from tests.support.static_site import StaticSite

pytestmark = pytest.mark.timeout(200)
LOCAL = {"ALLOW_NETS": "127.0.0.0/8"}
TROUBLE = ("raises", "loops", "again")
MODULE = "tests.support.page_functions"


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    return tmp_path / "pages"


@pytest.fixture
def site(pages: Path) -> Iterator[StaticSite]:
    with StaticSite(pages) as site:
        yield site


def lines(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def write(pages: Path, start: str, *others: str) -> None:
    links = "".join(f'<a href="/{name}/">{name}</a>' for name in others)
    for name, body in ((start, links), *((name, "") for name in (*others, "noted"))):
        (pages / name).mkdir(parents=True)
        (pages / name / "index.html").write_text(f"<title>{name}</title>{body}")


def errors(crawls: Crawls, crawl: int) -> list[ErrorGroup]:
    found = []
    layout = crawls.control.layout(crawls.shards)
    for shard in range(layout.shards):
        reader = crawls.store.open_reader(layout.generation, shard)
        if reader is not None:
            found += reader.errors(crawl)
            reader.close()
    return found


def test_the_example_finds_what_scrapy_finds(site, pages, tmp_path):
    start = site.url + write_quotes_site(pages)
    options = ("--handlers", "examples.quotes", "--email", CONTACT, "--delay", "0")
    output = ("--output", "quotes.jsonl", "--fields", "links")

    ours = run_cli(tmp_path, "crawl", start, *options, *output, ALLOW_NETS=LOCAL["ALLOW_NETS"])
    scrapy = subprocess.run(
        [
            *(sys.executable, "-m", "scrapy", "runspider", str(ROOT / "examples/quotes_scrapy.py")),
            *("-a", f"site={start}", "-O", "scrapy.jsonl"),
        ],
        cwd=tmp_path,
        capture_output=True,
        timeout=100,
    )

    assert ours.returncode == 0, ours.stderr.decode()
    assert scrapy.returncode == 0, scrapy.stderr.decode()
    mine = [record["item"] for record in lines(tmp_path / "quotes.jsonl") if "item" in record]
    theirs = lines(tmp_path / "scrapy.jsonl")
    assert len(theirs) == QUOTES + AUTHORS
    assert sorted(map(orjson.dumps, mine)) == sorted(map(orjson.dumps, theirs))


def test_the_example_is_shorter_than_that_for_scrapy():
    lengths = []
    for name in ("quotes", "quotes_scrapy"):
        program = (ROOT / "examples" / f"{name}.py").read_text().rpartition('"""')[2]
        lengths.append(len([line for line in program.splitlines() if line.strip()]))
    assert lengths[0] < lengths[1]


async def test_what_functions_do_costs_their_own_pages_and_is_told(
    broker_process: BrokerServer,
    start_worker: StartWorker,
    site: StaticSite,
    pages: Path,
    tmp_path: Path,
) -> None:
    write(pages, "start", *TROUBLE)
    crawls = Crawls(tmp_path / "state", [f"{site.url}/start/"], LOCAL)
    crawl = crawls.start(handlers=MODULE)
    records = tmp_path / "records.jsonl"
    settings = crawls.settings(
        "crawl:1x20 parse:1x20", SINKS=f"jsonl:{records}", CRAWL_PAGE_FUNCTION_S="1"
    )
    start_worker(broker_process.url, **settings | {"WORKER_HANDLERS": f"{HANDLERS},{MODULE}"})

    ended = await crawls.ended(crawl, 150)

    assert ended.state is CrawlState.COMPLETED
    counters = crawls.counters(crawl)
    # The page that is tried again is fetched twice.
    assert (counters["done"], counters["failed"], counters["pages"]) == (3, 2, 6)
    assert (counters["dropped"], counters["emitted"], counters["followed"]) == (1, 2, 2)
    assert (counters["follow_refused"], counters["out_of_scope"]) == (1, 1)
    by_path = {group.sample_url.removeprefix(site.url): group for group in errors(crawls, crawl)}
    raised = by_path["/raises/"]
    assert raised.reason.startswith(f"page function {MODULE}.raises: KeyError (page_functions.py,")
    assert "raise KeyError(page.url)" in raised.detail
    assert by_path["/loops/"].reason == f"page function {MODULE}.loops: took more than 1 s"
    assert by_path["/again/"].reason == f"page function {MODULE}.again: not yet"
    found = lines(records)
    items = {one["kind"]: one["item"] for one in found if "item" in one}
    assert items == {
        "noted": {"note": {"from": 0}, "type": "text/html"},
        "again": {"attempts": 1},
    }
    # The broker may have had a page of another test's crawl.
    ours = [one for one in found if "item" not in one and one["url"].startswith(site.url)]
    kinds = {one["url"].removeprefix(site.url): one["kind"] for one in ours}
    assert kinds == {
        "/noted/": "page",
        "/again/": "page",
        "/raises/": "failed",
        "/loops/": "failed",
    }


async def test_a_module_that_no_worker_has_is_told(
    broker_process: BrokerServer,
    start_worker: StartWorker,
    site: StaticSite,
    pages: Path,
    tmp_path: Path,
) -> None:
    write(pages, "start", "plain")
    crawls = Crawls(tmp_path / "state", [f"{site.url}/start/"], LOCAL)
    crawl = crawls.start(handlers=MODULE)
    start_worker(broker_process.url, **crawls.settings("crawl:1x20 parse:1x20"))

    await crawls.ended(crawl, 100)

    [group] = errors(crawls, crawl)
    assert (
        group.reason
        == f"no page functions of the module {MODULE} in WORKER_HANDLERS of this worker"
    )
    assert crawls.counters(crawl)["failed"] == 1


# Twice, it takes the end of a reservation for the page to come back.
@pytest.mark.proof
@pytest.mark.timeout(700)
async def test_a_function_that_ends_its_process_costs_its_own_page(
    broker_process: BrokerServer,
    start_worker: StartWorker,
    site: StaticSite,
    pages: Path,
    tmp_path: Path,
) -> None:
    write(pages, "ends-its-process")
    crawls = Crawls(tmp_path / "state", [f"{site.url}/ends-its-process/"], LOCAL)
    crawl = crawls.start(handlers=MODULE)
    settings = crawls.settings("crawl:1x20 parse:1x20", CRAWL_PAGE_FUNCTION_S="0.3")
    handlers = f"{HANDLERS},{MODULE}"
    worker = start_worker(broker_process.url, **settings | {"WORKER_HANDLERS": handlers})

    ended = await crawls.ended(crawl, 600)

    assert ended.state is CrawlState.COMPLETED
    assert crawls.counters(crawl)["failed"] == 1
    [group] = errors(crawls, crawl)
    assert group.reason == f"page function {MODULE}.ends_its_process: ended its process 2 times"
    assert worker.exit_code is None
