"""Polite fetch jobs: taken in by the owner of their shard, moved, told of, or refused."""

from typing import Any

import orjson
import pytest

from manyhands.shared.crawl.fetch_jobs import FetchJob
from manyhands.shared.crawl.store.model import LeaseLost
from manyhands.shared.errors import ConfigError
from manyhands.shared.urls import Url, shard_queue
from manyhands.worker.handlers import owning
from manyhands.worker.jobs.context import JobContext
from manyhands.worker.jobs.delivery import fresh_copy
from manyhands.worker.jobs.outcomes import Dead, Defer, Move
from manyhands.worker.testing import make_delivery

SHARDS = 8
URL = "http://example.com/a"
QUEUE = shard_queue(URL, SHARDS)


class FakeJobs:
    """State: what was admitted, and how many were moved."""

    def __init__(self) -> None:
        self.admitted: list[tuple[int, str, FetchJob]] = []
        self.moved = 0
        self.is_lost = False

    def moved_one(self) -> None:
        self.moved += 1

    async def admit(self, shard: int, url: Url, job: FetchJob) -> None:
        if self.is_lost:
            raise LeaseLost("it is not ours")
        self.admitted.append((shard, url.text, job))


class FakeOwner:
    shards = SHARDS

    def __init__(self) -> None:
        self.jobs = FakeJobs()
        self.admission = self

    def shard_of(self, url: str) -> int:
        return int(shard_queue(url, SHARDS).rpartition(".")[2])


@pytest.fixture(autouse=True)
def owner(monkeypatch: pytest.MonkeyPatch) -> FakeOwner:
    owner = FakeOwner()
    monkeypatch.setattr(owning, "_OWNERS", [owner])
    return owner


async def fetched(url: str = URL, **fields: Any) -> None:
    delivery = make_delivery("fetch", [url], **({"queue": QUEUE} | fields))
    await owning.fetch_politely(url, JobContext(delivery, None))


async def test_a_job_is_taken_in_by_the_owner_of_its_shard(owner: FakeOwner) -> None:
    await fetched("HTTP://Example.com/a", retry=3, custom={"mine": 1})
    ((shard, url, job),) = owner.jobs.admitted
    assert (shard, url) == (owner.shard_of(URL), URL)
    assert (job.url, job.retry, job.custom) == ("HTTP://Example.com/a", 3, {"mine": 1})


@pytest.mark.parametrize("queue", ["fetch.63", "fetch.007", "mine"])
async def test_one_in_another_queue_goes_to_its_own(owner: FakeOwner, queue: str) -> None:
    with pytest.raises(Move) as moved:
        await fetched(queue=queue)
    assert moved.value.queue == QUEUE
    assert owner.jobs.moved == 1
    assert not owner.jobs.admitted


async def test_a_moved_job_is_the_same_but_for_its_queue() -> None:
    ours = {"id": "first", "deliveries": 2, "hop": 1, "turn": 3}
    failure = {"errtype": "Dead", "retry_count": 0}
    sent: dict[str, Any] = {
        "custom": {"mh": ours, "mine": 1},
        "failure": failure,
        "queue": "fetch.63",
        "retry": 7,
    }
    delivery = make_delivery("fetch", [URL], **sent)
    copy = fresh_copy(delivery, Move(QUEUE))
    assert copy is not None
    moved = orjson.loads(copy)
    assert moved["jid"] != delivery.jid
    assert moved["queue"] == QUEUE
    assert (moved["custom"], moved["failure"], moved["retry"]) == (sent["custom"], failure, 7)


async def test_one_whose_shard_has_just_gone_comes_again_soon(owner: FakeOwner) -> None:
    owner.jobs.is_lost = True
    with pytest.raises(Defer):
        await fetched()


async def test_no_url_is_dead_with_the_reason() -> None:
    with pytest.raises(Dead):
        await fetched("http:///")


async def test_what_no_other_job_could_carry_is_dead_at_once() -> None:
    deep: list[Any] = []
    for _ in range(240):
        deep = [deep]
    with pytest.raises(Dead, match="nested deeper"):
        await fetched(custom={"deep": deep})


async def test_a_time_to_be_unique_that_is_none_is_dead_at_once() -> None:
    with pytest.raises(Dead, match=r"must be 1 to 315360000 s, not 'for ever'"):
        await fetched(custom={"unique_for_s": "for ever"})


async def test_odd_numbers_of_other_producers_are_brought_into_range(owner: FakeOwner) -> None:
    await fetched(retry=-7, reserve_for=10**9)
    ((_, _, job),) = owner.jobs.admitted
    assert (job.retry, job.reserve_for) == (-1, 86_400)


async def test_a_job_that_tells_of_a_failure_is_dead_with_it(owner: FakeOwner) -> None:
    told = FetchJob.of({}, "first-job", URL).failed_by("http 500", SHARDS).to_wire()
    with pytest.raises(Dead, match=r"^http 500$"):
        await fetched(custom=told["custom"])
    # Requeued by somebody, it is fetched again.
    await fetched(custom=told["custom"], failure={"errtype": "Dead"})
    ((_, _, job),) = owner.jobs.admitted
    assert (job.id, job.turn) == ("first-job", 1)


async def test_without_shards_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owning, "_OWNERS", [])
    with pytest.raises(ConfigError, match="owns no shards"):
        await fetched()
