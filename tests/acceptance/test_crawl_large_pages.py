"""A page of ten megabytes in every slot, by a real worker: memory stays within the budget of bytes,
each page says what was cut, and the crawl goes on."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from devservers import BrokerServer
from manyhands.shared.crawl.spec import ScopeSpec
from manyhands.shared.crawl.states import CrawlState
from tests.acceptance.scale import LARGE_PAGE_SLOTS
from tests.conftest import StartWorker
from tests.support.crawl_processes import MIB, crawl_children, peak_mib, rss_mib
from tests.support.crawling import Crawls
from tests.support.local_site import LocalSite, answer
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(600)

TEN_MEGABYTES = 10_000_000
BUDGET_MIB = 32
# Of it, at the most, with what is beside the budget: pages that are packed for the broker, and what
# each connection has read before it waits. Measured: 77 MiB with 20 slots, 101 MiB with 200.
BESIDES = 4


@pytest.fixture
async def sites() -> AsyncIterator[list[LocalSite]]:
    """A host for each slot: one has one request at a time."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(LocalSite(f"127.0.{1 + n // 200}.{1 + n % 200}"))
            for n in range(LARGE_PAGE_SLOTS)
        ]


async def test_pages_of_ten_megabytes_in_every_slot_cost_no_more_memory_than_the_budget(
    broker_process: BrokerServer,
    start_worker: StartWorker,
    tmp_path: Path,
    sites: list[LocalSite],
) -> None:
    line = b"<p>" + 997 * b"x"
    exact = answer(200, b"<a href=/more>m</a>".ljust(1000) + line * (TEN_MEGABYTES // 1000 - 1))
    longer = answer(200, b"<a href=/last>l</a>".ljust(1000) + line * (TEN_MEGABYTES // 1000))
    for site in sites:
        site.answers |= {"/": exact, "/more": longer, "/last": answer(200, b"the end")}
    crawls = Crawls(
        tmp_path / "state", [f"{site.url}/" for site in sites], {"ALLOW_NETS": "127.0.0.0/8"}, 4
    )
    settings = crawls.settings(f"crawl:1x{LARGE_PAGE_SLOTS} parse:1x4") | {
        "FETCH_IN_FLIGHT_BYTES": str(BUDGET_MIB * MIB),
        "FETCH_TIMEOUT_S": "60",
    }
    worker = start_worker(broker_process.url, **settings)
    [child] = await eventually(lambda: crawl_children(worker), 60)
    before = rss_mib(child)
    crawl = crawls.start(scope=ScopeSpec())

    ended = await crawls.ended(crawl, 500)

    counters = crawls.counters(crawl)
    assert ended.state is CrawlState.COMPLETED
    assert (counters["done"], counters["failed"]) == (3 * len(sites), 0)
    # Of the longer ones not all was read, and of neither all was parsed.
    assert counters["cut_by_parse_limit"] == 2 * len(sites)
    assert all("/last" in site.paths for site in sites)
    most = peak_mib(worker, broker_process)["crawl"]
    assert most - before < BESIDES * BUDGET_MIB < LARGE_PAGE_SLOTS * TEN_MEGABYTES / MIB
