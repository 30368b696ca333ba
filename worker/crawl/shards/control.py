"""What all members share, in a thread of its own: the control store, and shards to read from."""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from manyhands.shared.crawl.store.errors import StateAway
from manyhands.shared.crawl.store.model import Layout
from manyhands.shared.crawl.store.protocol import ControlStore, Store

# Between two attempts while the control store is away.
AGAIN_S = 0.2

Result = TypeVar("Result")


class Control:
    """State: what is open of the store, its tag, and the layout as this process last knew it."""

    def __init__(self, store: Store) -> None:
        self._loop = asyncio.get_running_loop()
        self.store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="crawl-control")
        self._control: ControlStore | None = None
        self._readers = store.readers()
        self.tag = ""
        self.layout = Layout(generation=0, shards=1, wanted=1, most_ever=1)

    async def open(self) -> None:
        """Waits while it is away."""
        self._control = await self._patiently(self.store.open_control)
        self.tag = await self.in_thread(self._control.tag)

    async def ask(self, question: Callable[[ControlStore], Result]) -> Result:
        """Waits while it is away. So a question may be asked twice of which only the answer was
        lost; all of them bear that."""
        control = self._opened()
        return await self._patiently(lambda: question(control))

    async def ask_once(self, question: Callable[[ControlStore], Result]) -> Result:
        """Raises StateAway."""
        control = self._opened()
        return await self.in_thread(lambda: question(control))

    async def in_thread(self, call: Callable[[], Result]) -> Result:
        return await self._loop.run_in_executor(self._thread, call)

    async def close(self, member: str) -> None:
        """`member` leaves."""
        if self._control is not None:
            with contextlib.suppress(StateAway):
                # Its leases run out by themselves.
                await self.ask_once(lambda control: control.leave(member))
            await self.in_thread(self._close_all)
        self._thread.shutdown(wait=False)

    # All shards

    async def counters(self, crawl: int) -> list[dict[str, int]]:
        """Of each shard that has had an owner."""

        def read() -> list[dict[str, int]]:
            return self._readers.counters(self.layout, crawl)

        return await self._read(read)

    async def received(self, wanted: Mapping[int, Collection[int]]) -> dict[int, dict[int, int]]:
        """The numbers up to which batches of some shards have arrived in others, by target and
        source; without targets that cannot be read."""
        return await self._read(lambda: self._readers.received(self.layout, wanted))

    async def seed_names(self, crawl: int, most: int) -> frozenset[str] | None:
        """None: there are more than `most`."""

        def read() -> frozenset[str] | None:
            names = frozenset(self._readers.seed_names(self.layout, crawl, most + 1))
            return names if len(names) <= most else None

        return await self._read(read)

    def _opened(self) -> ControlStore:
        assert self._control is not None, "before the start"
        return self._control

    async def _patiently(self, call: Callable[[], Result]) -> Result:
        while True:
            with contextlib.suppress(StateAway):
                return await self.in_thread(call)
            await asyncio.sleep(AGAIN_S)

    async def _read(self, read: Callable[[], Result]) -> Result:
        """Raises StateError."""

        def reading() -> Result:
            with self._readers.reopened_after_errors():
                return read()

        return await self.in_thread(reading)

    def _close_all(self) -> None:
        self._readers.close()
        self._opened().close()
        self.store.close()
