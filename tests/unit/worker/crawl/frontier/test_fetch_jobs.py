"""Fetch jobs that brought no page are told of until the broker has their dead jobs."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import structlog

from manyhands.shared.crawl.fetch_jobs import CAUSE, FetchJob, url_key
from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import (
    EndedJob,
    LeaseLost,
    NewJob,
    NewUrl,
    Settled,
    Unique,
)
from manyhands.shared.errors import ServerError
from manyhands.shared.jobs import Job
from manyhands.shared.urls import parse_url
from manyhands.worker.crawl.frontier.admission import Admission
from manyhands.worker.crawl.frontier.fetch_jobs import FORGOTTEN_IN_SHARDS, FetchJobs
from manyhands.worker.crawl.shards.owned import OwnedShard
from manyhands.worker.crawl.shards.store_threads import StoreThreads
from tests.support.virtual_time import run_in_virtual_time

URL = "http://example.com/"
SHARD = OwnedShard(3, 1)


def ended(number: int, state: UrlState = UrlState.FAILED, retry: int = 8) -> EndedJob:
    job = FetchJob(f"the-job-{number}", URL, 0, 0, retry, 300, "", {})
    return EndedJob(number, state, f"why {number}", job.to_text())


class Store:
    """A shard's store and its threads. State: the untold, what was admitted, what was asked."""

    def __init__(self, *untold: EndedJob) -> None:
        self.untold = list(untold)
        self.admitted: list[NewJob] = []
        self.nothing: list[tuple[str | int, ...]] = []
        self.looks = 0
        self.is_lost = False

    async def change(self, number: int, call: Callable[[Any], Any]) -> Any:
        assert number == SHARD.number
        if self.is_lost:
            raise LeaseLost("it is not ours")
        return call(self)

    def change_with(
        self, number: int, call: Callable[..., Any], item: NewJob
    ) -> "asyncio.Future[Any]":
        done = asyncio.get_running_loop().create_future()
        done.set_result(call(self, [item])[0])
        return done

    def admit_jobs(self, jobs: Sequence[NewJob], _now: float) -> set[int]:
        """The second of those that are unique is the same as the first."""
        earlier = any(job.unique for job in self.admitted)
        self.admitted += jobs
        return {place for place, job in enumerate(jobs) if job.unique and earlier}

    def untold_jobs(self, limit: int) -> list[EndedJob]:
        self.looks += 1
        return self.untold[:limit]

    def came_to_nothing(self, *first: str | int) -> None:
        self.nothing.append(first)

    def jobs_told(self, ids: Sequence[int]) -> None:
        self.untold = [one for one in self.untold if one.id not in ids]


class Bench:
    """State: what was pushed, and the error that the next push raises."""

    def __init__(self, store: Store, owned: Iterable[int] = (SHARD.number,)) -> None:
        self.pushed: list[Job] = []
        self.error: Exception | None = None
        self.coming: list[tuple[int, list[NewUrl]]] = []
        self.told: list[tuple[int, list[NewUrl]]] = []
        self.jobs = FetchJobs(
            cast("StoreThreads", store),
            dict.fromkeys(owned, SHARD),
            cast("Admission", SimpleNamespace(shards=8)),
            self._push,
            lambda shard, urls: self.coming.append((shard, list(urls))),
            lambda shard, urls: self.told.append((shard, list(urls))),
            kept_s=60,
        )

    async def _push(self, jobs: Sequence[Job]) -> None:
        error, self.error = self.error, None
        if error is not None:
            raise error
        self.pushed += jobs


async def for_a_while(bench: Bench, seconds: float = 10.0) -> None:
    running = asyncio.create_task(bench.jobs.run())
    await asyncio.sleep(seconds)
    assert not running.done()
    running.cancel()


def causes(jobs: Sequence[Job]) -> dict[str, str]:
    return {job.custom["mh"]["id"]: job.custom["mh"][CAUSE] for job in jobs}


def test_a_job_is_admitted_by_its_identity_and_the_frontier_hears_of_it() -> None:
    async def run() -> None:
        store = Store()
        bench = Bench(store)
        job = FetchJob("the-job", "http://EXAMPLE.com", 2, 0, 8, 300, "", {})
        await bench.jobs.admit(SHARD.number, parse_url(URL), job)
        ((new, unique),) = store.admitted
        assert unique is None
        assert (new.key, new.url, new.redirects) == (job.key, URL, 2)
        assert FetchJob.of_text(new.job) == job
        assert bench.coming == [(SHARD.number, [new])]
        assert bench.told == [(SHARD.number, [new])]

    run_in_virtual_time(run())


def test_one_that_is_the_same_as_another_is_counted_and_the_frontier_hears_nothing() -> None:
    async def run() -> None:
        store = Store()
        bench = Bench(store)
        with structlog.testing.capture_logs() as lines:
            for name in ("a", "b", "c"):
                job = FetchJob(name, URL, 0, 2, 8, 300, "", {"unique_for_s": 60})
                await bench.jobs.admit(SHARD.number, parse_url(URL), job)
            await for_a_while(bench)
        asked = [job.unique for job in store.admitted]
        assert asked == [Unique(url_key(URL), name, 2, 60) for name in "abc"]
        assert len(bench.told) == 1
        ((said, jobs),) = [(line["event"], line["jobs"]) for line in lines]
        assert "the same as earlier ones" in said and jobs == 2

    run_in_virtual_time(run())


def test_shards_forget_side_by_side_and_one_that_is_lost_holds_up_no_other() -> None:
    class Shards(Store):
        """State: how often each may be asked until it has no more, and how many are asked at the
        same time, now and at most."""

        def __init__(self) -> None:
            super().__init__()
            self.left = dict.fromkeys(range(20), 3)
            self.now = self.most = 0

        async def change(self, number: int, call: Callable[[Any], Any]) -> Any:
            if number == 7:
                raise LeaseLost("it is not ours")
            self.now += 1
            self.most = max(self.most, self.now)
            await asyncio.sleep(1)
            self.now -= 1
            self.left[number] -= 1
            return self.left[number] > 0

    async def run() -> None:
        store = Shards()
        bench = Bench(store, range(20))
        await bench.jobs.forget()
        assert {number for number, left in store.left.items() if left} == {7}
        assert store.most == FORGOTTEN_IN_SHARDS
        assert asyncio.get_running_loop().time() < 19 * 3

    run_in_virtual_time(run())


def test_what_ended_before_a_shard_was_opened_is_told_of() -> None:
    async def run() -> None:
        store = Store(ended(1), ended(2, UrlState.DISALLOWED), ended(3, retry=0))
        bench = Bench(store)
        bench.jobs.shard_opened(SHARD)
        await for_a_while(bench)
        assert causes(bench.pushed) == {
            "the-job-1": "why 1",
            "the-job-2": "not allowed by why 2",
        }
        assert store.untold == []

    run_in_virtual_time(run())


def test_unique_ones_are_nothing_that_others_can_be_the_same_as() -> None:
    async def run() -> None:
        # After a redirect.
        job = FetchJob("a", "http://EXAMPLE.com", 1, 2, 8, 300, "", {"unique_for_s": 60})
        store = Store(ended(1), EndedJob(2, UrlState.FAILED, "why", job.to_text()))
        bench = Bench(store)
        bench.jobs.shard_opened(SHARD)
        await for_a_while(bench)
        assert store.nothing == [(url_key(URL), "a", 2)]

    run_in_virtual_time(run())


def test_it_looks_only_where_something_ended_badly() -> None:
    async def run() -> None:
        store = Store()
        bench = Bench(store)
        for state in (UrlState.DONE, UrlState.QUEUED, UrlState.PARSING, UrlState.REDIRECTED):
            bench.jobs.settled(SHARD, Settled(1, state))
        await for_a_while(bench)
        assert store.looks == 0
        bench.jobs.settled(SHARD, Settled(1, UrlState.SKIPPED))
        await for_a_while(bench)
        assert store.looks == 1

    run_in_virtual_time(run())


def test_more_than_it_takes_at_once_are_all_told_of() -> None:
    async def run() -> None:
        store = Store(*(ended(number) for number in range(1200)))
        bench = Bench(store)
        bench.jobs.look_everywhere()
        await for_a_while(bench)
        assert len(causes(bench.pushed)) == 1200

    run_in_virtual_time(run())


def test_a_push_that_fails_is_repeated_and_a_lost_shard_is_left_to_its_next_owner() -> None:
    async def run() -> None:
        store = Store(ended(1))
        bench = Bench(store)
        bench.error = ServerError("ERR", "no")
        bench.jobs.shard_opened(SHARD)
        await for_a_while(bench)
        assert causes(bench.pushed) == {"the-job-1": "why 1"}
        store.untold, store.is_lost = [ended(2)], True
        bench.jobs.shard_opened(SHARD)
        await for_a_while(bench)
        assert len(bench.pushed) == 1

    run_in_virtual_time(run())
