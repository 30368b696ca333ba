"""The turn of a page: when its slot is free, its domain may be asked again, and it is over."""

import asyncio
from pathlib import Path

from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store import clock
from manyhands.shared.crawl.store.model import LeaseLost
from manyhands.worker.crawl.politeness.delays import FIRST_BLOCK_S
from tests.unit.worker.crawl.fetching.bench import DELAY_S, PAGE, SITE, bench_of
from tests.unit.worker.crawl.politeness.answers import answer

HTML = answer(200, b"<p>hello", content_type="text/html")


async def test_a_turn_takes_its_slot_at_once_and_ends_when_the_store_knows(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {PAGE: HTML}) as bench:
        request = await bench.take()
        bench.page_turns.begin(request, bench.page(request))
        assert (bench.under_way(), bench.fetcher.urls) == ((1, 0, 0), [])
        await bench.tasks.all_ended()

        assert (bench.fetcher.urls, bench.fetcher.user_agents) == ([PAGE], ["Manyhands of a crawl"])
        assert [page[3] for page in bench.outside.pages] == [PAGE]
        assert (await bench.urls())[PAGE].state is UrlState.PARSING
        assert (bench.under_way(), bench.shard.in_flight, bench.failures) == ((0, 0, 0), 0, [])
        assert bench.allowance.held == 0


async def test_the_slot_is_free_and_the_delay_runs_though_the_broker_is_slow(
    tmp_path: Path,
) -> None:
    async with bench_of(tmp_path, {PAGE: HTML}) as bench:
        request = await bench.take()
        domain = request.origin.domain
        began_at = asyncio.get_running_loop().time()
        bench.outside.answers.clear()
        bench.page_turns.begin(request, bench.page(request))
        await bench.outside.asked.wait()
        assert bench.under_way() == (0, 0, 1)

        assert not domain.requests
        assert began_at + DELAY_S <= domain.next_at
        assert request in bench.shard.under_way
        assert bench.allowance.begun == 1
        bench.outside.answers.set()
        await bench.tasks.all_ended()
        assert (request in bench.shard.under_way, bench.allowance.begun) == (False, 0)


async def test_a_host_that_sends_us_away_leaves_the_memory_with_its_urls(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {PAGE: answer(429)}) as bench:
        before = clock.now()
        request = await bench.take()
        bench.page_turns.begin(request, bench.page(request))
        await bench.tasks.all_ended()

        assert request.origin not in bench.working_set.origins
        assert (await bench.origin()).ready_at >= before + FIRST_BLOCK_S
        url = (await bench.urls())[PAGE]
        assert (url.state, url.status, url.attempts) == (UrlState.QUEUED, 429, 1)
        # Another page may be fetched in its place.
        assert (bench.allowance.left, bench.allowance.begun) == (1, 0)


async def test_nothing_is_sent_after_the_lease_and_the_url_is_put_back(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {PAGE: HTML}) as bench:
        request = await bench.take()
        page = bench.page(request)
        bench.lose_lease()
        bench.page_turns.begin(request, page)
        await bench.tasks.all_ended()

        assert (bench.fetcher.urls, bench.outside.pages) == ([], [])
        assert (await bench.urls())[PAGE].attempts == 0
        assert (bench.under_way(), bench.failures) == ((0, 0, 0), [])


async def test_an_answer_that_is_not_here_when_the_lease_ends_is_not_waited_for(
    tmp_path: Path,
) -> None:
    async with bench_of(tmp_path, {PAGE: HTML}) as bench:
        request = await bench.take()
        bench.fetcher.answers_after = asyncio.Event()
        bench.page_turns.begin(request, bench.page(request))
        await bench.fetcher.asked.wait()
        assert bench.under_way() == (1, 0, 0)
        bench.requests.end(bench.shard)
        await bench.tasks.all_ended()

        assert not request.origin.domain.requests
        url = (await bench.urls())[PAGE]
        assert (url.state.is_pending, url.attempts, bench.outside.pages) == (True, 0, [])
        assert (bench.under_way(), bench.failures) == ((0, 0, 0), [])


async def test_a_redirect_ends_its_url_and_its_target_is_queued(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {PAGE: answer(302, location="/other")}) as bench:
        request = await bench.take()
        bench.page_turns.begin(request, bench.page(request))
        await bench.tasks.all_ended()

        urls = await bench.urls()
        assert urls[PAGE].state is UrlState.REDIRECTED
        assert urls[f"{SITE}/other"].state.is_pending
        assert bench.allowance.left == 1


async def test_a_broker_that_fails_gives_the_shard_up_and_frees_all(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {PAGE: HTML}) as bench:
        request = await bench.take()
        error = bench.outside.push_error = ConnectionError("gone")
        bench.page_turns.begin(request, bench.page(request))
        await bench.tasks.all_ended()

        assert bench.failures == [(bench.shard, error)]
        assert (bench.under_way(), bench.allowance.begun) == ((0, 0, 0), 0)
        assert request not in bench.shard.under_way


async def test_a_lease_that_is_lost_meanwhile_is_no_failure_of_the_store(tmp_path: Path) -> None:
    async with bench_of(tmp_path, {PAGE: HTML}) as bench:
        request = await bench.take()
        bench.outside.push_error = LeaseLost("another owner")
        bench.page_turns.begin(request, bench.page(request))
        await bench.tasks.all_ended()

        assert (bench.failures, bench.under_way()) == ([], (0, 0, 0))
