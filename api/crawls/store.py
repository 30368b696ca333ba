"""The state store for the event loop: calls run in separate threads, because SQLite waits for disks
and for other processes."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from manyhands.api.problems import Problem, unavailable
from manyhands.shared.crawl.store.damage import damaged_shards
from manyhands.shared.crawl.store.model import Layout, NoSuchCrawl
from manyhands.shared.crawl.store.protocol import ControlStore
from manyhands.shared.crawl.store.readers import ShardReaders
from manyhands.shared.crawl.store.sqlite.database import StateError
from manyhands.shared.crawl.store.sqlite.directory import open_control

Answer = TypeVar("Answer")


class CrawlStore:
    """State: the control store and the shards, each with a thread: long reads of shards do not hold
    up writes."""

    def __init__(self, directory: Path, shards: int, control: ControlStore) -> None:
        self._directory = directory
        self._shards = shards
        self._control = control
        self._readers = ShardReaders(directory)
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
        return await self.aside(partial(damaged_shards, self._directory))

    async def aside(self, work: Callable[[], Answer]) -> Answer:
        """Anything else that waits for a disk. Raises Problem."""
        return await _answered(self._reading_thread, work)

    def layout(self, control: ControlStore) -> Layout:
        """Called inside `control`."""
        return control.layout(self._shards)

    async def close(self) -> None:
        await self.aside(self._readers.close)
        await self.control(lambda control: control.close())
        self._control_thread.shutdown(wait=False)
        self._reading_thread.shutdown(wait=False)


async def open_store(directory: Path, shards: int) -> CrawlStore:
    """Raises StateError."""
    return CrawlStore(directory, shards, await asyncio.to_thread(open_control, directory))


async def _answered(thread: ThreadPoolExecutor, work: Callable[[], Answer]) -> Answer:
    try:
        return await asyncio.get_running_loop().run_in_executor(thread, work)
    except NoSuchCrawl as error:
        raise Problem(404, str(error)) from None
    except StateError as error:
        raise unavailable(f"the state of the crawls: {error}", retry_after_s=2) from error
