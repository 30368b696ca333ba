"""The turn of a robots.txt: outside the slots, and what follows for its domain."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store import clock
from manyhands.worker.crawl.politeness.robots import RobotsRules
from manyhands.worker.crawl.shards.kept_robots import RobotsStores
from manyhands.worker.net.fetcher import TemporaryFetchError
from tests.unit.worker.crawl.fetching.bench import (
    DELAY_S,
    PAGE,
    RETRY_S,
    ROBOTS,
    SITE,
    Bench,
    bench_of,
)
from tests.unit.worker.crawl.politeness.answers import answer

LONGER_S = 20


def known(bench: Bench) -> RobotsRules | None:
    return bench.robots.known(SITE)


async def test_a_robots_txt_takes_no_slot_and_its_rules_are_known_then(tmp_path: Path) -> None:
    rules_file = answer(200, b"User-agent: *\nDisallow: /private\n")
    async with bench_of(tmp_path, {ROBOTS: rules_file}) as bench:
        request = await bench.take()
        assert bench.robots_turns.known(request.origin) is None
        began_at = asyncio.get_running_loop().time()
        bench.robots_turns.begin(request)
        assert bench.under_way() == (0, 1, 0)
        await bench.tasks.all_ended()

        rules = bench.robots_turns.known(request.origin)
        assert rules is not None
        assert (rules.allows(PAGE), rules.allows(f"{SITE}/private")) == (True, False)
        assert bench.fetcher.user_agents == ["Manyhands of a crawl"]
        assert bench.under_way() == (0, 0, 0)
        assert request not in bench.shard.under_way
        # It was a request to the domain: the next one waits, and the page is still in line.
        domain = request.origin.domain
        assert (domain.requests, domain.next_at >= began_at + DELAY_S) == (set(), True)
        assert [url.url for url in request.origin.urls] == [PAGE]


async def test_the_delay_that_it_asks_for_counts_at_once(tmp_path: Path) -> None:
    rules_file = answer(200, f"User-agent: *\nCrawl-delay: {LONGER_S}\n".encode())
    async with bench_of(tmp_path, {ROBOTS: rules_file}) as bench:
        request = await bench.take()
        began_at = asyncio.get_running_loop().time()
        bench.robots_turns.begin(request)
        await bench.tasks.all_ended()

        domain = request.origin.domain
        assert (domain.delay_s, domain.next_at >= began_at + LONGER_S) == (LONGER_S, True)


async def test_a_host_without_its_robots_txt_is_put_off_and_the_crawl_is_told(
    tmp_path: Path,
) -> None:
    failure = TemporaryFetchError("", reason="connection refused")
    async with bench_of(tmp_path, {ROBOTS: failure}) as bench:
        before = clock.now()
        request = await bench.take()
        bench.robots_turns.begin(request)
        await bench.tasks.all_ended()

        assert request.origin not in bench.working_set.origins
        origin = await bench.origin()
        assert origin.ready_at >= before + RETRY_S
        assert b"robots.txt: connection refused" in origin.notes
        assert (await bench.urls())[PAGE].state is UrlState.QUEUED
        [error] = await bench.store.change(0, lambda store: store.errors(1))
        assert (error.reason, error.sample_url) == ("robots.txt: connection refused", PAGE)


async def test_rules_that_the_store_has_need_no_request_and_no_delay(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {ROBOTS: answer(404)}) as bench:
        request = await bench.take()
        kept = bench.robots_turns.stores.of(bench.shard)
        learned = await bench.robots.learn(
            SITE, request.origin.state, kept, user_agent="Manyhands", patience_s=0.0
        )
        assert learned.was_requested
        bench.robots_turns.robots = type(bench.robots)(bench.fetcher, RETRY_S)
        bench.fetcher.urls.clear()
        next_at = request.origin.domain.next_at
        bench.robots_turns.begin(request)
        await bench.tasks.all_ended()

        assert (bench.fetcher.urls, request.origin.domain.next_at) == ([], next_at)
        assert bench.robots_turns.known(request.origin) is not None


async def test_nothing_is_asked_after_the_lease(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {ROBOTS: answer(404)}) as bench:
        request = await bench.take()
        bench.lose_lease()
        bench.robots_turns.begin(request)
        await bench.tasks.all_ended()

        assert (bench.fetcher.urls, known(bench), bench.failures) == ([], None, [])
        assert bench.under_way() == (0, 0, 0)


async def test_a_robots_txt_that_is_not_here_when_the_lease_ends_is_not_waited_for(
    tmp_path: Path,
) -> None:
    async with bench_of(tmp_path, {ROBOTS: answer(404)}) as bench:
        request = await bench.take()
        bench.fetcher.answers_after = asyncio.Event()
        bench.robots_turns.begin(request)
        await bench.fetcher.asked.wait()
        bench.requests.end(bench.shard)
        await bench.tasks.all_ended()

        assert (known(bench), bench.failures, bench.under_way()) == (None, [], (0, 0, 0))


async def test_a_store_that_fails_gives_its_shard_up(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {ROBOTS: answer(404)}) as bench:
        request = await bench.take()
        error = RuntimeError("the disk is gone")

        async def load(_origin: str) -> None:
            raise error

        kept = SimpleNamespace(load=load, keep=None)
        bench.robots_turns.stores = cast("RobotsStores", SimpleNamespace(of=lambda _: kept))
        bench.robots_turns.begin(request)
        await bench.tasks.all_ended()

        assert bench.failures == [(bench.shard, error)]
        assert (bench.fetcher.urls, bench.under_way()) == ([], (0, 0, 0))
        assert request not in bench.shard.under_way


async def test_without_a_crawl_the_service_asks_by_its_own_name(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {ROBOTS: answer(404)}) as bench:
        request = await bench.take()
        request.origin.urls.clear()
        bench.robots_turns.begin(request)
        await bench.tasks.all_ended()

        assert bench.fetcher.user_agents == ["Manyhands of nobody"]
