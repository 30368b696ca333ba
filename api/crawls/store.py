"""The state store, asked from the event loop: in threads of its own, because it waits for disks and
for other processes."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from manyhands.api.problems import Problem, unavailable
from manyhands.shared.crawl.store.errors import StateAway, StateError
from manyhands.shared.crawl.store.model import Layout, NoSuchCrawl
from manyhands.shared.crawl.store.opening import store_at
from manyhands.shared.crawl.store.protocol import ControlStore, ShardReaders, Store

Answer = TypeVar("Answer")


class CrawlStore:
    """State: the control store and the shards, each with a thread: long reads of shards do not hold
    up writes."""

    def __init__(self, store: Store, shards: int, control: ControlStore) -> None:
        self._store = store
        self._shards = shards
        self._control = control
        self._readers = store.readers()
        self._control_thread = ThreadPoolExecutor(1, "crawl-control")
        self._reading_thread = ThreadPoolExecutor(1, "crawl-shards")

    async def control(self, ask: Callable[[ControlStore], Answer]) -> Answer:
        """What the control store answers. Raises Problem."""
        return await _answered(self._control_thread, lambda: ask(self._control))

    async def shards(self, ask: Callable[[ShardReaders, Layout], Answer]) -> Answer:
        """What is found in the shards. Raises Problem."""
        layout = await self.control(self.layout)

        def asked() -> Answer:
            with self._readers.reopened_after_errors() as readers:
                return ask(readers, layout)

        return await _answered(self._reading_thread, asked)

    async def damaged_shards(self) -> list[str]:
        return await self.aside(self._store.damaged_shards)

    async def aside(self, work: Callable[[], Answer]) -> Answer:
        """Anything else that waits for a disk. Raises Problem."""
        return await _answered(self._reading_thread, work)

    def layout(self, control: ControlStore) -> Layout:
        """Called inside `control`. The workers change it; ours counts where there is none yet."""
        return control.layout(self._shards, may_change=False)

    async def close(self) -> None:
        await self.aside(self._readers.close)
        await self.control(lambda control: control.close())
        await self.aside(self._store.close)
        self._control_thread.shutdown(wait=False)
        self._reading_thread.shutdown(wait=False)


async def open_store(places: Sequence[str], shards: int) -> CrawlStore:
    """Raises StateError."""
    store = store_at(places)
    return CrawlStore(store, shards, await asyncio.to_thread(store.open_control))


async def _answered(thread: ThreadPoolExecutor, work: Callable[[], Answer]) -> Answer:
    try:
        return await asyncio.get_running_loop().run_in_executor(thread, work)
    except NoSuchCrawl as error:
        raise Problem(404, str(error)) from None
    except StateAway as error:
        raise unavailable(
            f"the crawls wait for the database of their state: {error}", retry_after_s=2
        ) from error
    except StateError as error:
        raise unavailable(f"the state of the crawls: {error}", retry_after_s=2) from error
