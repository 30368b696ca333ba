"""Requests end with the lease under which they were sent."""

import asyncio

import pytest

from manyhands.shared.crawl.store.model import LeaseLost
from manyhands.worker.crawl.shards.leases import MARGIN, LeaseGuard
from manyhands.worker.crawl.shards.open_requests import OpenRequests
from manyhands.worker.crawl.shards.owned import OwnedShard
from tests.support.virtual_time import run_in_virtual_time, turns

LEASE_S = 10.0
ACTS_FOR_S = LEASE_S * (1 - MARGIN)
ANSWERED_AFTER_S = 30.0


class Leased:
    """Two shards, on the loop's clock. State: when each request that did not end by itself did."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.lease_guard = LeaseGuard(LEASE_S, self._loop.time)
        self.requests = OpenRequests(self.lease_guard)
        self.shards = [OwnedShard(number, 1) for number in range(2)]
        self.ended_at: dict[int, float] = {}
        for shard in self.shards:
            self.lease_guard.granted(shard.number, shard.epoch, 0.0)
        self.requests.leases_changed()

    async def request(self, number: int, takes_s: float = ANSWERED_AFTER_S) -> str:
        try:
            async with self.requests.under_lease_of(self.shards[number]) as check:
                check()
                await asyncio.sleep(takes_s)
                return "answer"
        except LeaseLost:
            self.ended_at[number] = self._loop.time()
            return "lost"

    def renew(self, *numbers: int, asked_at: float | None = None) -> None:
        asked_at = self._loop.time() if asked_at is None else asked_at
        self.lease_guard.renewed(set(numbers), asked_at)
        self.requests.leases_changed()


def test_a_request_ends_before_the_lease_that_nobody_renewed():
    async def run() -> None:
        leased = Leased()
        assert await asyncio.gather(*map(leased.request, (0, 1))) == ["lost", "lost"]
        assert leased.ended_at == pytest.approx({0: ACTS_FOR_S, 1: ACTS_FOR_S})

    run_in_virtual_time(run())


def test_a_renewal_lets_them_go_on_and_counts_from_when_it_was_asked_for():
    async def run() -> None:
        leased = Leased()
        both = [asyncio.create_task(leased.request(number)) for number in (0, 1)]
        await asyncio.sleep(7)
        # Its answer came late, and only one is still ours.
        leased.renew(0, asked_at=2.0)
        await asyncio.gather(*both)
        assert leased.ended_at == pytest.approx({0: 2 + ACTS_FOR_S, 1: ACTS_FOR_S})

    run_in_virtual_time(run())


def test_one_that_is_renewed_in_time_is_answered():
    async def run() -> None:
        leased = Leased()
        answer = asyncio.create_task(leased.request(0))
        while not answer.done():
            leased.renew(0, 1)
            await asyncio.sleep(LEASE_S / 4)
        assert await answer == "answer"

    run_in_virtual_time(run())


def test_a_lease_that_was_late_is_watched_again():
    async def run() -> None:
        leased = Leased()
        assert await leased.request(0) == "lost"
        leased.renew(0)
        assert await leased.request(0) == "lost"
        assert leased.ended_at == pytest.approx({0: 2 * ACTS_FOR_S})

    run_in_virtual_time(run())


def test_those_of_a_shard_that_is_given_up_end_at_once():
    async def run() -> None:
        leased = Leased()
        given_up, other = (asyncio.create_task(leased.request(number, 5.0)) for number in (0, 1))
        await turns()
        leased.requests.end(leased.shards[0])
        assert (await given_up, await other) == ("lost", "answer")
        assert leased.ended_at == {0: 0.0}

    run_in_virtual_time(run())


def test_a_time_out_of_the_request_itself_is_not_the_end_of_the_lease():
    async def run() -> None:
        leased = Leased()
        with pytest.raises(TimeoutError):
            async with leased.requests.under_lease_of(leased.shards[0]), asyncio.timeout(1):
                await asyncio.sleep(ANSWERED_AFTER_S)

    run_in_virtual_time(run())


def test_what_is_cancelled_from_outside_stays_cancelled():
    async def run() -> None:
        leased = Leased()
        request = asyncio.create_task(leased.request(0))
        await turns()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        leased.requests.end(leased.shards[0])

    run_in_virtual_time(run())
