"""Real documentation, served by nginx and crawled by the product, by wget and by Scrapy: the same
pages.

All are judged by what the server gave them: HTML with a status of 200. They are told to follow <a>
and <area>, and, where everything is fetched, frames and <link> as well. Of <link> we take what
names a page (next, prev, canonical, translations), and the others all of it: of Python's
documentation that makes two more at a depth of 1, and none in all. By themselves they also get
style sheets and pictures, which are no pages. docs/CRAWLING.md has the differences as a table.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import pytest

from devservers import BrokerServer, NginxServer, documentation, wget
from manyhands.shared.crawl.spec import ScopeSpec
from manyhands.shared.crawl.states import CrawlState
from tests.acceptance.scale import IS_PROOF, WHOLE_DOCUMENTATIONS
from tests.conftest import StartWorker
from tests.support.crawling import Crawls
from tests.support.imports import ROOT

# Seconds: the first one fetches the packages.
pytestmark = [pytest.mark.debian, pytest.mark.timeout(1500 if IS_PROOF else 240)]
# Of each program.
PATIENCE_S = 450 if IS_PROOF else 150
OURS, WGETS, SCRAPYS = "Manyhands", "Wget", "Scrapy"
PAGES_OF_THE_INDEX = 412
# Pages that only others find. A link there has a backslash for its URL, by mistake, and we refuse
# such URLs; Scrapy makes a slash of it, and nginx answers that with the index.
OTHERS_ALONE = {("/sqlite3/index.html", SCRAPYS): {"/sqlite3//"}}
WHOLE = 1000


@pytest.fixture
def site() -> Iterator[NginxServer]:
    with NginxServer(documentation()) as site:
        yield site


def tags_of(depth: int) -> str:
    return "a,area,frame,iframe,link" if depth == WHOLE else "a,area"


def get_by_wget(url: str, depth: int, directory: Path) -> None:
    """Only below the directory of the URL; status 8 says that some links are dead."""
    level = "inf" if depth == WHOLE else str(depth)
    done = subprocess.run(
        [
            *(wget(), "--recursive", "--no-parent", f"--level={level}", "--quiet"),
            *(f"--follow-tags={tags_of(depth)}", "--execute=robots=off"),
            *("--tries=2", "--timeout=20", url),
        ],
        cwd=directory,
        timeout=PATIENCE_S,
    )
    assert done.returncode in (0, 8)


def get_by_scrapy(url: str, depth: int, directory: Path) -> None:
    level = 0 if depth == WHOLE else depth
    subprocess.run(
        [
            *(sys.executable, "-m", "tests.support.scrapy_pages", url),
            *("--depth", str(level), "--tags", tags_of(depth)),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=directory,
        timeout=PATIENCE_S,
        check=True,
    )


def python_path() -> str:
    found = documentation().glob("python3.*/html")
    (directory,) = (path for path in found if not path.is_symlink())
    return f"/{directory.relative_to(documentation())}"


def postgresql_path() -> str:
    (directory,) = documentation().glob("postgresql-doc-*/html")
    return f"/{directory.relative_to(documentation())}/index.html"


# URL, depth, pages that there are at the least.
WHOLE_OF = {
    "python3-doc": ("index.html", WHOLE, 500),
    "sqlite3-doc": ("/sqlite3/index.html", WHOLE, 600),
    "postgresql-doc": ("", WHOLE, 1000),
}


@pytest.mark.parametrize(
    ("start", "depth", "least"),
    [
        ("genindex-all.html", 1, PAGES_OF_THE_INDEX),
        *(WHOLE_OF[name] for name in WHOLE_DOCUMENTATIONS),
    ],
    ids=["general index", *WHOLE_DOCUMENTATIONS],
)
async def test_the_same_pages_are_found_as_by_wget_and_scrapy(
    broker_process: BrokerServer,
    start_worker: StartWorker,
    site: NginxServer,
    tmp_path: Path,
    start: str,
    depth: int,
    least: int,
) -> None:
    url = urljoin(f"{site.url}{python_path()}/", start or postgresql_path())
    crawls = Crawls(tmp_path / "state", [url], {"ALLOW_NETS": "127.0.0.0/8"})
    below = f"{url.rpartition('/')[0]}/*"
    crawl = crawls.start(scope=ScopeSpec(max_depth=depth, include=(below,)))
    start_worker(broker_process.url, **crawls.settings("crawl:1x20 parse:1x20"))

    ended = await crawls.ended(crawl, PATIENCE_S)
    get_by_wget(url, depth, tmp_path)
    get_by_scrapy(url, depth, tmp_path)

    ours = site.pages_of(OURS)
    assert ended.state is CrawlState.COMPLETED
    assert len(ours) >= least
    for agent in (WGETS, SCRAPYS):
        theirs = site.pages_of(agent) - OTHERS_ALONE.get((start, agent), set())
        assert ours == theirs, (agent, sorted(ours - theirs)[:20], sorted(theirs - ours)[:20])
    assert crawls.counters(crawl)["done"] == len(ours)


async def test_what_a_small_limit_cuts_is_counted(
    broker_process: BrokerServer, start_worker: StartWorker, site: NginxServer, tmp_path: Path
) -> None:
    url = f"{site.url}{python_path()}/genindex-all.html"
    crawls = Crawls(tmp_path / "state", [url], {"ALLOW_NETS": "127.0.0.0/8"})
    crawl = crawls.start(scope=ScopeSpec(max_depth=1))
    small = {"FETCH_TRUNCATE_BYTES": "100000"}
    start_worker(broker_process.url, **crawls.settings("crawl:1x20 parse:1x20", **small))

    await crawls.ended(crawl, 100)

    counters = crawls.counters(crawl)
    assert 0 < counters["done"] < PAGES_OF_THE_INDEX / 2
    # The index itself, and others that it leads to.
    assert counters["cut_by_parse_limit"] > 1
    assert counters["cut_by_fetch_limit"] == counters["cut_by_nesting"] == 0
