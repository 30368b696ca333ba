"""The requests that are open under a lease. They end with it: when its time is over or its shard is
given up, their sockets are closed, since another owner may come."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial

from manyhands.shared.crawl.store.model import LeaseLost
from manyhands.worker.crawl.shards.leases import LeaseGuard
from manyhands.worker.crawl.shards.owned import OwnedShard

# Raises LeaseLost: called directly before something is sent.
Check = Callable[[], None]


class OpenRequests:
    """State: the open requests of each shard, and the alarm for the next end of a lease."""

    def __init__(self, lease_guard: LeaseGuard) -> None:
        self._loop = asyncio.get_running_loop()
        self._lease_guard = lease_guard
        self._open: dict[OwnedShard, set[asyncio.Timeout]] = {}
        self._alarm: asyncio.TimerHandle | None = None

    @contextlib.asynccontextmanager
    async def under_lease_of(self, shard: OwnedShard) -> AsyncIterator[Check]:
        """What is awaited inside is cancelled when the lease ends. Raises LeaseLost then."""
        request = asyncio.timeout(None)
        self._open.setdefault(shard, set()).add(request)
        try:
            async with request:
                yield partial(self._lease_guard.check, shard.number, shard.epoch)
        except TimeoutError:
            if request.expired():
                raise LeaseLost(f"the lease of shard {shard.number} ended") from None
            raise
        finally:
            self._forget(shard, request)

    def end(self, shard: OwnedShard) -> None:
        """All of its requests, at once."""
        for request in self._open.pop(shard, ()):
            request.reschedule(self._loop.time())

    def leases_changed(self) -> None:
        """Call when one was granted or renewed."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        ends_at = self._lease_guard.next_end()
        if ends_at is not None:
            after_s = ends_at - self._lease_guard.now()
            self._alarm = self._loop.call_later(max(0.0, after_s), self._look)

    def _look(self) -> None:
        for shard in list(self._open):
            if not self._lease_guard.hold(shard.number, shard.epoch):
                self.end(shard)
        self.leases_changed()

    def _forget(self, shard: OwnedShard, request: asyncio.Timeout) -> None:
        others = self._open.get(shard)
        if others is not None:
            others.discard(request)
            if not others:
                del self._open[shard]
