"""A service that is started again when it has ended by itself."""

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Generic, Protocol, Self, TypeVar

from manyhands.cli.services import Service, ServiceFailed

FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 30.0
# One that has run for so long has recovered: the next wait is the first again.
RECOVERED_AFTER_S = 60.0


class Started(Protocol):
    @property
    def service(self) -> Service: ...


Kind = TypeVar("Kind", bound=Started)


class Kept(Generic[Kind]):
    """State: the service as it runs, since when, and, while it does not, when it is to be started
    again, which waits for all that it has left behind. `start` is called for each start; a first
    one that fails is an error."""

    def __init__(
        self, start: Callable[[], AbstractAsyncContextManager[Kind]], tell: Callable[[str], None]
    ) -> None:
        self._start = start
        self._tell = tell
        self._opened = AsyncExitStack()
        self._wait_s = FIRST_WAIT_S
        self._since = 0.0
        self._again_at: float | None = None
        self._running: Kind

    @property
    def running(self) -> Kind:
        return self._running

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._opened.aclose()

    async def look(self) -> None:
        """Does what is to be done now."""
        now, service = time.monotonic(), self._running.service
        if self._again_at is None:
            if not service.has_ended:
                return
            if now - self._since > RECOVERED_AFTER_S:
                self._wait_s = FIRST_WAIT_S
            self._later(str(service.failed(f"ended with {service.process.returncode}")))
        elif now >= self._again_at and not service.lingers:
            await self._opened.aclose()
            try:
                await self._open()
            except ServiceFailed as error:
                self._later(str(error))
            else:
                self._tell(f"the {service.name} runs again")

    async def _open(self) -> None:
        self._running = await self._opened.enter_async_context(self._start())
        self._since, self._again_at = time.monotonic(), None

    def _later(self, why: str) -> None:
        self._tell(f"{why}; it is started again in {self._wait_s:g} s")
        self._again_at = time.monotonic() + self._wait_s
        self._wait_s = min(2 * self._wait_s, LONGEST_WAIT_S)
