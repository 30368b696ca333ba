"""The shard stores of this process, all used in one thread.

Changes that come within a few milliseconds share one transaction per shard: a commit costs more
than most changes. Changes that nobody waits for go with the next one of their shard.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from manyhands.shared.crawl.store.errors import StateError
from manyhands.shared.crawl.store.model import LeaseLost
from manyhands.shared.crawl.store.protocol import ShardStore
from manyhands.worker.crawl.announcement import Announcement

GATHER_S = 0.01

Item = TypeVar("Item")
Result = TypeVar("Result")


class ShardFailed(LeaseLost):
    """Its file cannot be used: all work on it stops, as with a lost lease."""


class _Change(NamedTuple):
    # None: not for one shard, and outside any transaction.
    shard: int | None
    call: Callable[..., Any]
    future: "asyncio.Future[Any]"


class _Together(NamedTuple):
    """The items of one shared change, which grow until it is handed over."""

    items: list[Any]
    future: "asyncio.Future[None]"


class StoreThread:
    """State: the open stores (touched by the thread only), and the changes not handed over yet.
    `patience_s` says how long a change that nobody waits for may wait."""

    def __init__(self, patience_s: Callable[[], float]) -> None:
        # A shard's file cannot be used. Announced before the futures of its changes fail.
        self.failed: Announcement[[int, StateError]] = Announcement()
        self._patience_s = patience_s
        self._loop = asyncio.get_running_loop()
        self._stores: dict[int, ShardStore] = {}
        self._gathered: list[_Change] = []
        # The shards with gathered changes; changes of the others may wait longer.
        self._going: set[int] = set()
        self._patient: dict[int, list[_Change]] = {}
        # By shard and call.
        self._together: dict[tuple[int, Any], _Together] = {}
        self._queue: SimpleQueue[list[_Change] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="crawl-store", daemon=True)
        self._thread.start()

    def change(self, shard: int, call: Callable[[ShardStore], Result]) -> asyncio.Future[Result]:
        """Call it with the shard's store, in a transaction. Raises LeaseLost when the shard is no
        longer open here, or has another owner by now."""
        return self._add(_Change(shard, call, self._loop.create_future()))

    def change_some_time(
        self, shard: int, call: Callable[[ShardStore], Result]
    ) -> asyncio.Future[Result]:
        """Like `change`, but with the next change of that shard, or soon if there is none."""
        change = _Change(shard, call, self._loop.create_future())
        if shard in self._going:
            self._gathered.append(change)
        else:
            if not self._patient:
                self._loop.call_later(self._patience_s(), self.lose_patience)
            self._patient.setdefault(shard, []).append(change)
        return change.future

    def change_together(
        self, shard: int, call: Callable[[ShardStore, list[Item]], None], item: Item
    ) -> "asyncio.Future[None]":
        """Like `change_some_time`, but one call for all items not handed over yet; they share a
        future."""
        together = self._together.get((shard, call))
        if together is None:
            items: list[Item] = []
            future = self.change_some_time(shard, lambda store: call(store, items))
            together = self._together[shard, call] = _Together(items, future)
        together.items.append(item)
        return together.future

    async def open(self, shard: int, make: Callable[[], ShardStore]) -> None:
        def opened() -> None:
            self._stores[shard] = make()

        await self._add(_Change(None, opened, self._loop.create_future()))

    async def close(self, shard: int) -> None:
        """After all changes that were asked for before."""

        def closed() -> None:
            store = self._stores.pop(shard, None)
            if store is not None:
                store.close()

        await self._add(_Change(None, closed, self._loop.create_future()))

    async def stop(self) -> None:
        for shard in list(self._stores):
            await self.close(shard)
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _add(self, change: _Change) -> "asyncio.Future[Any]":
        """Behind all earlier changes of its shard; opening or closing a shard goes behind those of
        all shards."""
        self._begin_gathering()
        if change.shard is None:
            for shard in list(self._patient):
                self._go(shard)
        elif change.shard not in self._going:
            self._go(change.shard)
        self._gathered.append(change)
        return change.future

    def _begin_gathering(self) -> None:
        """The caller must add something then."""
        if not self._gathered:
            self._loop.call_later(GATHER_S, self._hand_over)

    def _go(self, shard: int) -> None:
        self._going.add(shard)
        self._gathered += self._patient.pop(shard, ())

    def lose_patience(self) -> None:
        """Hand over all of them; the latest go a little sooner than they would have to."""
        if not self._patient:
            return
        self._begin_gathering()
        for shard in list(self._patient):
            self._go(shard)

    def _hand_over(self) -> None:
        self._queue.put(self._gathered)
        self._gathered = []
        for place in [place for place in self._together if place[0] in self._going]:
            del self._together[place]
        self._going.clear()

    # In the thread

    def _work(self) -> None:
        while (changes := self._queue.get()) is not None:
            results = self._run(changes)
            # On a closed loop nobody waits any more.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_resolve, results)

    def _run(self, changes: list[_Change]) -> "list[tuple[asyncio.Future[Any], Any]]":
        """In order for each shard: opening and closing happen between the transactions of what came
        before and after."""
        results: list[tuple[asyncio.Future[Any], Any]] = []
        of_shards: dict[int, list[_Change]] = {}
        for change in changes:
            if change.shard is not None:
                of_shards.setdefault(change.shard, []).append(change)
                continue
            self._run_shards(of_shards, results)
            of_shards = {}
            try:
                results.append((change.future, change.call()))
            except Exception as error:
                results.append((change.future, _Failure(error)))
        self._run_shards(of_shards, results)
        return results

    def _run_shards(
        self,
        of_shards: dict[int, list[_Change]],
        results: "list[tuple[asyncio.Future[Any], Any]]",
    ) -> None:
        for shard, changes in of_shards.items():
            try:
                done = self._run_shard(shard, changes)
            except Exception as error:
                results.extend((change.future, _Failure(error)) for change in changes)
            else:
                results.extend(done)

    def _run_shard(
        self, shard: int, changes: list[_Change]
    ) -> "list[tuple[asyncio.Future[Any], Any]]":
        store = self._stores.get(shard)
        if store is None:
            raise LeaseLost(f"shard {shard} is not open here")
        try:
            with store.transaction():
                return [(change.future, change.call(store)) for change in changes]
        except StateError as error:
            self._loop.call_soon_threadsafe(self.failed, shard, error)
            raise ShardFailed(str(error)) from error


class _Failure(NamedTuple):
    error: Exception


def _resolve(results: "list[tuple[asyncio.Future[Any], Any]]") -> None:
    for future, result in results:
        if future.done():
            continue  # the task that waited was cancelled
        if isinstance(result, _Failure):
            future.set_exception(result.error)
            # Retrieved: callers that do not wait hear of it through `failed`.
            future.exception()
        else:
            future.set_result(result)
