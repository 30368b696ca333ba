"""The shard stores of this process, in threads of their own: as many as the store can serve side by
side, in each place that keeps shards.

Changes that come soon after each other share one transaction per shard: a commit costs more than
most changes. How soon is up to the store, which knows what it costs. Those that nobody waits for
wait until something else of their shard goes. What comes while a shard is being written goes in its
next transaction. There, changes that do the same with different items are one: each question to a
store in another place is a way there and back. While the place of a shard is away, its changes
wait; those of other places have other threads.
"""

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from manyhands.shared.crawl.store.absence import Absence
from manyhands.shared.crawl.store.errors import StateAway, StateError
from manyhands.shared.crawl.store.model import LeaseLost
from manyhands.shared.crawl.store.protocol import ShardStore
from manyhands.shared.histogram import Histogram
from manyhands.worker.crawl.announcement import Announcement
from manyhands.worker.service.families import DURATION_BOUNDS_S

# Between two attempts while the place of a shard is away.
AGAIN_S = 0.1

Item = TypeVar("Item")
Result = TypeVar("Result")
Results = list[tuple["asyncio.Future[Any]", Any]]


class ShardFailed(LeaseLost):
    """Its store cannot be used: whoever worked on it stops, as with a lease that is lost."""


class _Change(NamedTuple):
    """Called with the shard's store and in a transaction, or outside of any and with nothing: what
    opens and closes it. With `items`, it is done together with others of the same call, where the
    first or the last of them stands."""

    shard: int
    call: Callable[..., Any]
    future: "asyncio.Future[Any]"
    is_outside: bool = False
    items: list[Any] | None = None
    is_last: bool = False


class _Together(NamedTuple):
    """The items of one shared change, which grow until it is handed over."""

    items: list[Any]
    future: "asyncio.Future[None]"


class StoreThreads:
    """State: the open stores (each touched by one thread at a time), what was not handed over
    yet, and how long transactions took. `patience_s` says how long what nobody waits for may
    wait; the rest is the store's own, see `protocol.Store`, whose `writers` are asked for when
    there is first something to do."""

    def __init__(
        self,
        patience_s: Callable[[], float],
        *,
        gather_s: float,
        writers: Callable[[], int],
        places: Sequence[Absence],
    ) -> None:
        # A shard's store cannot be used: announced before those hear who asked for something of it.
        self.failed: Announcement[[int, StateError]] = Announcement()
        # How long transactions took, with the wait for a place that was away.
        self.took = Histogram(DURATION_BOUNDS_S)
        self._patience_s = patience_s
        self._gather_s = gather_s
        self._loop = asyncio.get_running_loop()
        self._stores: dict[int, ShardStore] = {}
        self._gathered: list[_Change] = []
        # The shards with gathered changes; changes of the others may wait longer.
        self._going: set[int] = set()
        self._patient: dict[int, list[_Change]] = {}
        # By shard and call.
        self._together: dict[tuple[int, Any], _Together] = {}
        self._places = places
        self._writers = writers
        self._work = [_Work() for _ in places]
        self._threads: list[threading.Thread] = []

    def change(self, shard: int, call: Callable[[ShardStore], Result]) -> asyncio.Future[Result]:
        """Call it with the shard's store, in a transaction. Raises LeaseLost when the shard is no
        longer open here, or has another owner by now."""
        return self._add(_Change(shard, call, self._loop.create_future()))

    def change_some_time(
        self, shard: int, call: Callable[[ShardStore], Result]
    ) -> asyncio.Future[Result]:
        """Like `change`, but with the next change of that shard, or soon if there is none."""
        return self._add_some_time(_Change(shard, call, self._loop.create_future()))

    def change_with(
        self, shard: int, call: Callable[[ShardStore, list[Item]], list[Result]], item: Item
    ) -> asyncio.Future[Result]:
        """Like `change`, but one call for all items that go in the same transaction, which gives
        the answers to all of them."""
        return self._add(_Change(shard, call, self._loop.create_future(), items=[item]))

    def change_together(
        self,
        shard: int,
        call: Callable[[ShardStore, list[Item]], None],
        item: Item,
        *,
        is_last: bool = False,
    ) -> "asyncio.Future[None]":
        """Like `change_some_time`, but one call for all items that go in the same transaction, as
        soon as the first of them would have gone, or as late as the last. Those not handed over
        yet share a future."""
        together = self._together.get((shard, call))
        if together is None:
            items: list[Item] = []
            change = _Change(shard, call, self._loop.create_future(), items=items, is_last=is_last)
            future = self._add_some_time(change)
            together = self._together[shard, call] = _Together(items, future)
        together.items.append(item)
        return together.future

    async def open(self, shard: int, make: Callable[[], ShardStore]) -> None:
        def opened() -> None:
            self._stores[shard] = make()

        await self._add(_Change(shard, opened, self._loop.create_future(), is_outside=True))

    async def close(self, shard: int) -> None:
        """After all changes that were asked for before."""

        def closed() -> None:
            store = self._stores.pop(shard, None)
            if store is not None:
                store.close()

        await self._add(_Change(shard, closed, self._loop.create_future(), is_outside=True))

    async def stop(self) -> None:
        self.lose_patience()
        for shard in list(self._stores):
            await self.close(shard)
        for work in self._work:
            work.stop()
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    def _add(self, change: _Change) -> "asyncio.Future[Any]":
        """Behind everything that was asked of its shard before."""
        self._begin_gathering()
        if change.shard not in self._going:
            self._go(change.shard)
        self._gathered.append(change)
        return change.future

    def _add_some_time(self, change: _Change) -> "asyncio.Future[Any]":
        if change.shard in self._going:
            self._gathered.append(change)
        else:
            if not self._patient:
                self._loop.call_later(self._patience_s(), self.lose_patience)
            self._patient.setdefault(change.shard, []).append(change)
        return change.future

    def _begin_gathering(self) -> None:
        """The caller must add something then."""
        if not self._gathered:
            self._loop.call_later(self._gather_s, self._hand_over)

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
        gathered, self._gathered = self._gathered, []
        if not self._threads:
            self._start_threads(self._writers())
        for number, work in enumerate(self._work):
            work.add([one for one in gathered if self._place_of(one.shard) == number])
        for place in [place for place in self._together if place[0] in self._going]:
            del self._together[place]
        self._going.clear()

    def _start_threads(self, writers: int) -> None:
        for place, work in enumerate(self._work):
            work.is_one_writer = writers == 1
            for number in range(writers):
                thread = threading.Thread(
                    target=self._run_all,
                    args=(work,),
                    name=f"crawl-store-{place}-{number}",
                    daemon=True,
                )
                self._threads.append(thread)
                thread.start()

    def _place_of(self, shard: int) -> int:
        return shard % len(self._places)

    def _answered(self, results: Results, took_s: Iterable[float]) -> None:
        for seconds in took_s:
            self.took.add(seconds)
        _resolve(results)

    # In the threads

    def _run_all(self, work: "_Work") -> None:
        while taken := work.take():
            results: Results = []
            took_s: list[float] = []
            for shard, changes in taken.items():
                for is_outside, run in groupby(changes, key=lambda change: change.is_outside):
                    gathered = list(run)
                    if is_outside:
                        results += _outside(gathered)
                        continue
                    began_at = time.monotonic()
                    results += self._in_one(shard, gathered)
                    took_s.append(time.monotonic() - began_at)
            # A loop that is closed has nobody left who waits.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._answered, results, took_s)
            # Only now, so that the answers come in the order of the changes.
            work.done(taken)

    def _in_one(self, shard: int, changes: Sequence[_Change]) -> Results:
        """All of them, or none."""
        try:
            return self._run_shard(shard, changes)
        except Exception as error:
            return [(change.future, _Failure(error)) for change in changes]

    def _run_shard(self, shard: int, changes: Sequence[_Change]) -> Results:
        store = self._stores.get(shard)
        if store is None:
            raise LeaseLost(f"shard {shard} is not open here")
        try:
            return self._patiently(shard, lambda: store.run(lambda: _done(store, changes)))
        except StateError as error:
            self._loop.call_soon_threadsafe(self.failed, shard, error)
            raise ShardFailed(str(error)) from error

    def _patiently(self, shard: int, run: Callable[[], Result]) -> Result:
        """Nothing has happened when the store says that it is away."""
        place = self._places[self._place_of(shard)]
        while True:
            try:
                return run()
            except StateAway:
                if not place.is_waited_for:
                    raise
            time.sleep(AGAIN_S)


class _Work:
    """What the threads share. State: whether there is only one, the changes of each shard that
    wait, and which shards are in the hands of a thread or waiting for one."""

    def __init__(self) -> None:
        self.is_one_writer = False
        self._changed = threading.Condition()
        self._waiting: dict[int, list[_Change]] = {}
        self._ready: deque[int] = deque()
        self._taken: set[int] = set()
        self._is_stopping = False

    def add(self, changes: Sequence[_Change]) -> None:
        with self._changed:
            for change in changes:
                of_shard = self._waiting.setdefault(change.shard, [])
                if not of_shard and change.shard not in self._taken:
                    self._ready.append(change.shard)
                of_shard.append(change)
            self._changed.notify_all()

    def take(self) -> dict[int, list[_Change]]:
        """What waits of a shard that nobody else has: of all of them where there is only one
        thread, since its answers cost less when they are given together. Empty: the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._is_stopping)
            number = len(self._ready) if self.is_one_writer else min(1, len(self._ready))
            shards = [self._ready.popleft() for _ in range(number)]
            self._taken.update(shards)
            return {shard: self._waiting.pop(shard) for shard in shards}

    def done(self, shards: Iterable[int]) -> None:
        with self._changed:
            self._taken.difference_update(shards)
            self._ready.extend(shard for shard in shards if shard in self._waiting)
            self._changed.notify_all()

    def stop(self) -> None:
        """After what was added before."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()


def _done(store: ShardStore, changes: Sequence[_Change]) -> Results:
    """Those with items at one place for all of the same call. That another change of this
    transaction comes before or after it makes no difference to who asked: nobody knows of any of
    them yet that it has ended."""
    places: dict[Any, int] = {}
    items: dict[Any, list[Any]] = {}
    for place, change in enumerate(changes):
        if change.items is not None:
            items.setdefault(change.call, []).extend(change.items)
            if change.is_last or change.call not in places:
                places[change.call] = place
    answers: dict[Any, Iterator[Any]] = {}
    results: dict[asyncio.Future[Any], Any] = {}
    for place, change in enumerate(changes):
        results[change.future] = None
        if change.items is None:
            results[change.future] = change.call(store)
        elif places[change.call] == place:
            answers[change.call] = iter(change.call(store, items[change.call]) or ())
    for change in changes:
        if change.items is not None:
            results[change.future] = next(answers[change.call], None)
    return list(results.items())


def _outside(changes: Iterable[_Change]) -> Results:
    results: Results = []
    for change in changes:
        try:
            results.append((change.future, change.call()))
        except Exception as error:
            results.append((change.future, _Failure(error)))
    return results


class _Failure(NamedTuple):
    error: Exception


def _resolve(results: Results) -> None:
    for future, result in results:
        if future.done():
            continue  # the task that waited was cancelled
        if isinstance(result, _Failure):
            future.set_exception(result.error)
            # Retrieved: callers that do not wait hear of it through `failed`.
            future.exception()
        else:
            future.set_result(result)
