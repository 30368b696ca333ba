"""Sees to it that the state's directory is used by this machine alone, for as long as we run."""

import asyncio
import contextlib
from pathlib import Path

from manyhands.shared.crawl.store.sqlite.one_host import HostBeats
from manyhands.worker.crawl.shards.leases import RENEWALS


class OneHost:
    """State: the beats; none where any number of machines may use the state."""

    def __init__(self, directory: Path | None, lease_s: float) -> None:
        self._beats = HostBeats(directory) if directory is not None else None
        self._lease_s = lease_s

    async def check(self, closing: asyncio.Event) -> None:
        """Before anything else is read or written there. Waits only where there was another
        machine, or an earlier boot of this one. Raises ConfigError."""
        if self._beats is None:
            return
        if await asyncio.to_thread(self._beats.look):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._lease_s):
                    await closing.wait()
                    return
            await asyncio.to_thread(self._beats.refuse_others)
            await asyncio.to_thread(self._beats.forget_others)
        await asyncio.to_thread(self._beats.beat)

    async def watch(self) -> None:
        """Until cancelled, if there is anything to watch. Raises ConfigError: of two machines that
        started at the same time."""
        while self._beats is not None:
            await asyncio.sleep(self._lease_s / RENEWALS)
            # In this order: one that was stopped for a while must not scare its successor.
            await asyncio.to_thread(self._beats.refuse_others)
            await asyncio.to_thread(self._beats.beat)
