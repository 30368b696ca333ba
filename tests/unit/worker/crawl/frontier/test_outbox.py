"""Links for shards of other processes, until they have arrived."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

import pytest

from manyhands.shared.crawl.messages import LINKS
from manyhands.shared.crawl.store.absence import Absence
from manyhands.shared.crawl.store.model import Layout
from manyhands.shared.crawl.store.protocol import ShardStore
from manyhands.shared.crawl.store.sqlite.directory import open_shard
from manyhands.shared.jobs import Job
from manyhands.worker.crawl.frontier import outbox
from manyhands.worker.crawl.frontier.outbox import Outbox
from manyhands.worker.crawl.shards.control import Control
from manyhands.worker.crawl.shards.owned import OwnedShard
from manyhands.worker.crawl.shards.store_threads import StoreThreads

Result = TypeVar("Result")

CRAWL = 1
PATIENCE_S = 10.0
# Source, number and target of a batch.
Batch = tuple[int, int, int]


class Others:
    """The processes that own the targets. State: what they have got, by target and source."""

    tag = "tag"
    layout = Layout(generation=0, shards=8, wanted=8, most_ever=8)

    def __init__(self) -> None:
        self.have: dict[int, dict[int, int]] = {}

    async def received(self, wanted: Mapping[int, Collection[int]]) -> dict[int, dict[int, int]]:
        return {
            target: {source: self.have.get(target, {}).get(source, 0) for source in sources}
            for target, sources in wanted.items()
        }


class AskedStore(StoreThreads):
    """State: which shards were asked, in order."""

    def __init__(self) -> None:
        super().__init__(lambda: 0.0, gather_s=0.0, writers=lambda: 1, places=[Absence("")])
        self.asked: list[int] = []
        self.was_asked = asyncio.Event()

    def change(self, shard: int, call: Callable[[ShardStore], Result]) -> asyncio.Future[Result]:
        self.asked.append(shard)
        self.was_asked.set()
        return super().change(shard, call)


class Bench:
    """An outbox over two shards. State: the batches that were pushed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = AskedStore()
        self.others = Others()
        self.pushed: list[Batch] = []
        self.pushes = 0
        self._came = asyncio.Event()
        self.outbox = Outbox(self.store, self._push, cast("Control", self.others))

    async def open(self) -> None:
        for number in (0, 1):
            await self.store.open(number, partial(open_shard, self.directory, 0, number, 1, 0.0))
            self.outbox.shard_opened(OwnedShard(number, 1))

    async def put(self, source: int, *targets: int) -> None:
        links = b'[["http://a.test/",1,0]]'
        batches = [(target, links) for target in targets]
        await self.store.change(source, lambda store: store.send(CRAWL, batches))

    async def until_pushed(self, number: int) -> list[Batch]:
        async with asyncio.timeout(PATIENCE_S):
            while len(self.pushed) < number:
                self._came.clear()
                await self._came.wait()
        return sorted(self.pushed)

    async def kept(self, source: int) -> list[tuple[int, int]]:
        found = await self.store.change(source, lambda store: store.outgoing({}, 100))
        return [(batch.target, batch.sequence) for batch in found]

    async def _push(self, jobs: Sequence[Job]) -> None:
        self.pushes += 1
        for job in jobs:
            assert job.jobtype == LINKS
            _, target, batches = job.args
            self.pushed += [(batch[0], batch[1], target) for batch in batches]
        self._came.set()


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setattr(outbox, "PUMP_S", 0.0)
    bench = Bench(tmp_path)
    await bench.open()
    pump = asyncio.create_task(bench.outbox.run_pump())
    yield bench
    pump.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await pump
    await bench.store.stop()


async def test_what_is_put_out_is_pushed_once_and_forgotten_when_it_has_arrived(
    bench: Bench,
) -> None:
    await bench.put(0, 5, 6, 5)
    bench.outbox.wake([0])
    assert await bench.until_pushed(3) == [(0, 1, 5), (0, 1, 6), (0, 2, 5)]

    bench.others.have = {5: {0: 1}, 6: {0: 1}}
    await bench.outbox.look_what_arrived()
    assert await bench.kept(0) == [(5, 2)]

    bench.others.have = {5: {0: 2}}
    await bench.outbox.look_what_arrived()
    assert await bench.kept(0) == []
    assert len(bench.pushed) == 3


async def test_only_shards_with_more_are_asked(bench: Bench) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while bench.store.asked != [0, 1]:
            # For what their last owners have left.
            bench.store.was_asked.clear()
            await bench.store.was_asked.wait()
    await bench.put(1, 6)
    bench.store.asked.clear()
    bench.outbox.wake([1])

    assert await bench.until_pushed(1) == [(1, 1, 6)]
    assert bench.store.asked == [1]


async def test_more_than_go_at_once_go_one_after_the_other(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "MOST_BATCHES", 2)
    await bench.put(0, 5, 5, 5, 6, 7)
    bench.outbox.wake([0])

    pushed = await bench.until_pushed(5)
    assert pushed == [(0, 1, 5), (0, 1, 6), (0, 1, 7), (0, 2, 5), (0, 3, 5)]
    assert bench.pushes == 3


async def test_what_has_not_arrived_for_long_is_pushed_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.put(0, 5, 5)
    bench.outbox.wake([0])
    await bench.until_pushed(2)
    bench.others.have = {5: {0: 1}}
    await bench.outbox.look_what_arrived()
    monkeypatch.setattr(outbox, "LOST_AFTER_S", -1.0)
    await bench.outbox.look_what_arrived()

    assert await bench.until_pushed(3) == [(0, 1, 5), (0, 2, 5), (0, 2, 5)]


async def test_what_the_last_owner_left_is_pushed_when_a_shard_is_opened(bench: Bench) -> None:
    await bench.put(1, 7)
    bench.outbox.shard_closed(OwnedShard(1, 1))
    bench.outbox.shard_opened(OwnedShard(1, 2))

    assert await bench.until_pushed(1) == [(1, 1, 7)]
