"""What the routes of one process work with."""

import asyncio
import contextlib
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any, TypeVar

import httpx

from manyhands.api.batcher import Batcher
from manyhands.api.budget import Shares
from manyhands.api.crawls.service import CrawlService
from manyhands.api.intake import Intake
from manyhands.api.keys import Key
from manyhands.api.metrics import ApiMetrics
from manyhands.api.problems import Problem, outcome_unknown, shutting_down, too_busy, unavailable
from manyhands.shared.budget import ByteBudget
from manyhands.shared.crawl.claim import is_mark_queue
from manyhands.shared.errors import FaktoryError, NotSent, ServerError
from manyhands.shared.faktory.client import Client
from manyhands.shared.settings import ApiSettings

INFO_KEPT_S = 1.0
ANSWER_WITHIN_S = 2.0

Answer = TypeVar("Answer")


@dataclass(slots=True)
class Parts:
    """State: whether the service is ending, the streams that must then end too, and INFO's last
    answer."""

    settings: ApiSettings
    client: Client
    batcher: Batcher
    intake: Intake
    # Bytes of bodies that are read whole, of streams, and of pages that are answered.
    bulk: Shares
    streams: Shares
    pages: ByteBudget
    metrics: ApiMetrics
    web: httpx.AsyncClient
    run_directory: Path
    # None without a state store.
    crawls: CrawlService | None = None
    is_draining: bool = False
    _streams: set[asyncio.Future[Problem]] = field(default_factory=set)
    _info: dict[str, Any] = field(default_factory=dict)
    _info_at: float = float("-inf")
    _asking: asyncio.Task[dict[str, Any]] | None = None

    def require_broker(self) -> Client:
        """Raises Problem at once where a command would wait for a connection."""
        if not self.client.is_up:
            raise unavailable("the broker is away", retry_after_s=2)
        return self.client

    def refuse_if_draining(self) -> None:
        if self.is_draining:
            raise shutting_down()

    def begin_draining(self) -> None:
        self.is_draining = True
        for stop in self._streams:
            if not stop.done():
                stop.set_result(shutting_down())

    @contextlib.contextmanager
    def stoppable(self) -> Iterator[asyncio.Future[Problem]]:
        """Resolved when the service begins to end: a stream may never end by itself."""
        stop: asyncio.Future[Problem] = asyncio.get_running_loop().create_future()
        self._streams.add(stop)
        try:
            yield stop
        finally:
            self._streams.discard(stop)

    async def info(self) -> dict[str, Any]:
        """INFO, at most once a second: over many queues it is work for the broker. Raises
        Problem."""
        client = self.require_broker()
        if asyncio.get_running_loop().time() - self._info_at <= INFO_KEPT_S:
            return self._info
        if self._asking is None:
            self._asking = asyncio.ensure_future(self._ask(client))
            self._asking.add_done_callback(self._asked)
        return await asyncio.shield(self._asking)

    async def _ask(self, client: Client) -> dict[str, Any]:
        self._info = _without_marks(await soon(client.info()))
        self._info_at = asyncio.get_running_loop().time()
        return self._info

    def _asked(self, asking: asyncio.Task[dict[str, Any]]) -> None:
        self._asking = None
        if not asking.cancelled():
            asking.exception()  # those who wait for it raise it


def _without_marks(info: dict[str, Any]) -> dict[str, Any]:
    """The job by which a store marks a broker waits for nobody: its age would alarm people."""
    faktory = info["faktory"]
    if not faktory.get("queues"):
        return info
    queues = {name: size for name, size in faktory["queues"].items() if not is_mark_queue(name)}
    return info | {"faktory": faktory | {"queues": queues}}


async def soon(question: Awaitable[Answer]) -> Answer:
    """A question's answer. The client wants figures now: a slow broker is reported, not waited for.
    Raises Problem."""
    try:
        async with asyncio.timeout(ANSWER_WITHIN_S):
            return await question
    except TimeoutError:
        raise unavailable("the broker is connected but does not answer", retry_after_s=2) from None
    except FaktoryError as error:
        raise broker_failed(error) from error


def broker_failed(error: FaktoryError) -> Problem:
    """For commands other than pushes, which may be repeated without harm."""
    if isinstance(error, ServerError):
        return Problem(502, f"the broker refused: {error.text}")
    if isinstance(error, NotSent):
        return unavailable("the broker is away: nothing was done", retry_after_s=2)
    return outcome_unknown(f"the broker did not answer, it may have been done or not: {error}")


async def pay(key: Key, jobs: int, stop: asyncio.Future[Problem]) -> None:
    """Wait until the key has paid for what it sent before: for requests that can be held back.
    Raises Problem when stopped."""
    if key.bucket is None:
        return
    loop = asyncio.get_running_loop()
    while (wait_s := key.bucket.wait_s(loop.time())) > 0:
        await asyncio.wait((stop,), timeout=wait_s)
        if stop.done():
            raise stop.result()
    key.bucket.take(jobs, loop.time())


def pay_now(key: Key, jobs: int = 1) -> None:
    """As `pay`, but refuse where it would have to wait. Raises Problem."""
    if key.bucket is None:
        return
    now = asyncio.get_running_loop().time()
    wait_s = key.bucket.wait_s(now)
    if wait_s > 0:
        detail = f"the key {key.name!r} has used up its {key.bucket.rate:g} jobs/s"
        raise too_busy(f"{detail}: nothing was taken", retry_after_s=ceil(wait_s))
    key.bucket.take(jobs, now)
