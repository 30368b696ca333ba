"""Links for shards of other processes: pushed until they have arrived.

The transaction that ends a page also stores its batch. A batch is pushed as often as needed, and
forgotten when the other shard's store has it.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence

import orjson

from manyhands.shared.crawl.messages import LinksBatch, LinksMessage, crawl_queue, links_job
from manyhands.shared.crawl.store.errors import StateError
from manyhands.shared.crawl.store.model import LeaseLost, Outgoing
from manyhands.shared.crawl.store.protocol import ShardStore
from manyhands.shared.jobs import Job, new_jid
from manyhands.shared.logs import get_logger
from manyhands.worker.crawl.shards.control import Control
from manyhands.worker.crawl.shards.owned import OwnedShard
from manyhands.worker.crawl.shards.store_threads import StoreThreads
from manyhands.worker.jobs.stage_services import Push

PUMP_S = 0.1
ARRIVED_LOOK_S = 0.5
# A batch that has not arrived after this is pushed again: its job was lost.
LOST_AFTER_S = 60.0
MOST_BATCHES = 500
# Of one message, so that it fits into a line of the broker's protocol.
MOST_LINKS = 5_000


class Outbox:
    """State: up to which number each open shard's batches were pushed to each target, since when
    they are unconfirmed, and which shards have more to push."""

    def __init__(self, store: StoreThreads, push: Push, control: Control) -> None:
        self._loop = asyncio.get_running_loop()
        self._store = store
        self._push = push
        self._control = control
        # By source, then by target.
        self._pushed: dict[int, dict[int, int]] = {}
        self._arrived: dict[tuple[int, int], int] = {}
        self._progress_at: dict[tuple[int, int], float] = {}
        self._sources: set[int] = set()
        self._wanted = asyncio.Event()
        self._log = get_logger("crawl")

    def shard_opened(self, shard: OwnedShard) -> None:
        """What its last owner may have pushed is pushed again; the receivers know it."""
        self._pushed[shard.number] = {}
        self.wake([shard.number])

    def shard_closed(self, shard: OwnedShard) -> None:
        source = shard.number
        self._pushed.pop(source, None)
        for pair in [pair for pair in self._arrived if pair[0] == source]:
            del self._arrived[pair]
        for pair in [pair for pair in self._progress_at if pair[0] == source]:
            del self._progress_at[pair]

    def wake(self, sources: Collection[int]) -> None:
        """These shards have more outgoing batches."""
        self._sources.update(sources)
        self._wanted.set()

    async def run_pump(self) -> None:
        while True:
            await self._wanted.wait()
            await asyncio.sleep(PUMP_S)
            self._wanted.clear()
            sources, self._sources = list(self._sources), set()
            taken = await asyncio.gather(*(self._take(source) for source in sources))
            batches = [
                (source, batch)
                for source, of_source in zip(sources, taken, strict=True)
                for batch in of_source
            ]
            if not batches:
                continue
            layout = self._control.layout
            jobs = _messages(batches, self._control.tag, layout.generation, layout.shards)
            await self._push(jobs)
            now = self._loop.time()
            for source, batch in batches:
                pushed = self._pushed.get(source)
                if pushed is not None:
                    pushed[batch.target] = max(pushed.get(batch.target, 0), batch.sequence)
                    self._progress_at.setdefault((source, batch.target), now)
            if unfinished := [
                source
                for source, of_source in zip(sources, taken, strict=True)
                if len(of_source) == MOST_BATCHES
            ]:
                self.wake(unfinished)

    async def look_what_arrived(self) -> None:
        """One round: ask every target with unconfirmed batches."""
        wanted: dict[int, set[int]] = {}
        for source, pushed in self._pushed.items():
            for target, number in pushed.items():
                if self._arrived.get((source, target), 0) < number:
                    wanted.setdefault(target, set()).add(source)
        if not wanted:
            return
        try:
            arrived = await self._control.received(wanted)
        except StateError:
            arrived = {}
        now = self._loop.time()
        for target in wanted.keys() - arrived.keys():
            # Damaged: they wait in the broker until a good file is back.
            self._progress_at |= {(source, target): now for source in wanted[target]}
        delivered: dict[int, dict[int, int]] = {}
        for target, of_target in arrived.items():
            for source, number in of_target.items():
                if number > self._arrived.get((source, target), 0):
                    delivered.setdefault(source, {})[target] = number
                else:
                    self._judge(source, target, number, now)
        await asyncio.gather(
            *(self._forget(source, up_to, now) for source, up_to in delivered.items())
        )

    def _judge(self, source: int, target: int, arrived: int, now: float) -> None:
        """Nothing new has come there."""
        pair = (source, target)
        if now - self._progress_at.get(pair, now) > LOST_AFTER_S and source in self._pushed:
            self._log.warning("links have not arrived: sent again", source=source, target=target)
            self._pushed[source][target] = arrived
            self._progress_at[pair] = now
            self.wake([source])

    async def _take(self, source: int) -> list[Outgoing]:
        after: Mapping[int, int] = dict(self._pushed.get(source, {}))

        def take(store: ShardStore) -> list[Outgoing]:
            return store.outgoing(after, MOST_BATCHES)

        try:
            return await self._store.change(source, take)
        except LeaseLost:
            return []

    async def _forget(self, source: int, up_to: Mapping[int, int], now: float) -> None:
        try:
            await self._store.change_some_time(source, lambda store: store.delivered(up_to))
        except LeaseLost:
            return
        for target, arrived in up_to.items():
            self._arrived[source, target] = arrived
            self._progress_at[source, target] = now


def _messages(
    batches: Sequence[tuple[int, Outgoing]], tag: str, generation: int, shards: int
) -> list[Job]:
    """One message for each target, or several where there are many links."""
    by_target: dict[int, list[LinksBatch]] = {}
    jobs: list[Job] = []
    sizes: dict[int, int] = {}

    def close(target: int) -> None:
        message = LinksMessage(generation=generation, target=target, batches=by_target.pop(target))
        jobs.append(links_job(message, crawl_queue(tag, target, shards), new_jid()))
        del sizes[target]

    for source, batch in batches:
        links = [tuple(link) for link in orjson.loads(batch.payload)]
        entry = LinksBatch(source, batch.sequence, batch.crawl, links)
        by_target.setdefault(batch.target, []).append(entry)
        sizes[batch.target] = sizes.get(batch.target, 0) + len(links)
        if sizes[batch.target] >= MOST_LINKS:
            close(batch.target)
    for target in list(by_target):
        close(target)
    return jobs
