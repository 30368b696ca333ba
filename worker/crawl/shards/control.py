"""What all members share, in a thread of its own: the control store, and shards to read from."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from manyhands.shared.crawl.store.model import Layout
from manyhands.shared.crawl.store.protocol import ControlStore, Store

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
        self._control = await self.in_thread(self.store.open_control)
        self.tag = await self.in_thread(self._control.tag)

    async def ask(self, question: Callable[[ControlStore], Result]) -> Result:
        control = self._opened()
        return await self.in_thread(lambda: question(control))

    async def in_thread(self, call: Callable[[], Result]) -> Result:
        return await self._loop.run_in_executor(self._thread, call)

    async def close(self, member: str) -> None:
        """`member` leaves."""
        if self._control is not None:
            await self.ask(lambda control: control.leave(member))
            await self.in_thread(self._close_all)
        self._thread.shutdown(wait=False)

    # All shards

    async def counters(self, crawl: int) -> list[dict[str, int]]:
        """Of each shard that has had an owner."""

        def read() -> list[dict[str, int]]:
            return self._readers.counters(self.layout, crawl)

        return await self._read(read)

    async def received(self, target: int, source: int) -> int:
        """The number up to which batches of one shard have arrived in another."""

        def read() -> int:
            reader = self._readers.get(self.layout.generation, target)
            return reader.received_from(source) if reader is not None else 0

        return await self._read(read)

    async def seed_names(self, crawl: int, most: int) -> frozenset[str] | None:
        """None: there are more than `most`."""

        def read() -> frozenset[str] | None:
            names = frozenset(self._readers.seed_names(self.layout, crawl, most + 1))
            return names if len(names) <= most else None

        return await self._read(read)

    def _opened(self) -> ControlStore:
        assert self._control is not None, "before the start"
        return self._control

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
