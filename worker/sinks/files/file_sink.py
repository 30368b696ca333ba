"""The common part of sinks that write files: their threads, and the housekeeping of what they have
written."""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Protocol, TypeVar

from manyhands.shared.closing import closed_on_error
from manyhands.shared.errors import ConfigError
from manyhands.shared.faktory.backoff import Backoff
from manyhands.shared.logs import get_logger
from manyhands.shared.trouble import Trouble
from manyhands.worker.records import Record
from manyhands.worker.sinks.files.batches import BatchWriter
from manyhands.worker.sinks.files.manifest import is_permanent

# How often to look for segments that are complete, or old, or whose process died.
SWEEP_EVERY_S = 5.0
LONGEST_DELAY_S = 60.0
# How often to log the same trouble.
TELL_EVERY_S = 60.0

_Result = TypeVar("_Result")


class Keeper(Protocol):
    """Publishes or tidies what was written. Blocking; for a separate thread."""

    def sweep(self, now: float, *, is_last: bool = False) -> None: ...

    def close(self) -> None: ...


class FileSink:
    """A `Sink`. State: two threads, one that writes and one that publishes, what each has open, and
    the last trouble with publishing.

    `make_writer` and `make_keeper` run in these threads; each opens its own connection."""

    def __init__(
        self,
        name: str,
        kinds: frozenset[type],
        make_writer: Callable[[], BatchWriter],
        make_keeper: Callable[[], Keeper],
    ) -> None:
        self.name = name
        self.kinds = kinds
        self._make_writer = make_writer
        self._make_keeper = make_keeper
        self._writing = ThreadPoolExecutor(1, thread_name_prefix="sink")
        self._publishing = ThreadPoolExecutor(1, thread_name_prefix="publish")
        self._writer: BatchWriter | None = None
        self._keeper: Keeper | None = None
        self._housekeeping: asyncio.Task[None] | None = None
        self._is_something_complete = asyncio.Event()
        self._closing = asyncio.Event()
        self._trouble = Trouble(TELL_EVERY_S)
        # Fixed now: a segment's age must not change when the clock is set.
        self._ahead_s = time.time() - time.monotonic()
        self._log = get_logger("sink").bind(sink=name)

    def _now(self) -> float:
        return time.monotonic() + self._ahead_s

    async def open(self) -> None:
        """Raises ConfigError where trying again cannot help. It may be called again."""
        try:
            if self._keeper is None:
                self._keeper = await _in(self._publishing, self._make_keeper)
            if self._writer is None:
                self._writer = await _in(self._writing, self._opened_writer)
        except OSError as error:
            if is_permanent(error):
                raise ConfigError(f"SINKS: {self.name} cannot be written: {error}") from error
            raise
        self._housekeeping = asyncio.create_task(self._keep_house(), name=f"publish {self.name}")

    async def write(self, records: Sequence[Record]) -> None:
        assert self._writer is not None, "it is not open"
        if await _in(self._writing, self._writer.write, records, self._now()):
            self._is_something_complete.set()

    async def close(self) -> None:
        """Publish what has been written. What cannot be published now waits for the next start."""
        self._closing.set()
        self._is_something_complete.set()
        try:
            if self._housekeeping is not None:
                await self._housekeeping
            if self._writer is not None:
                await _in(self._writing, self._writer.finish)
                await _in(self._writing, self._writer.close)
            if self._keeper is not None:
                await self._last_sweep(self._keeper)
                await _in(self._publishing, self._keeper.close)
        finally:
            self._writer = self._keeper = None
            self._writing.shutdown(wait=False)
            self._publishing.shutdown(wait=False)

    def _opened_writer(self) -> BatchWriter:
        writer = self._make_writer()
        with closed_on_error(writer):
            writer.open()
        return writer

    async def _keep_house(self) -> None:
        backoff = Backoff(longest_s=LONGEST_DELAY_S)
        while not self._closing.is_set():
            self._is_something_complete.clear()
            try:
                await self._sweep()
            except Exception as error:
                # Whatever it is, it is tried again.
                self._tell(error)
                await _wait(self._closing, backoff.next_delay_s())
            else:
                backoff.reset()
                if self._trouble.end():
                    self._log.info("files are published again")
                await _wait(self._is_something_complete, SWEEP_EVERY_S)

    async def _sweep(self) -> None:
        assert self._writer is not None
        assert self._keeper is not None
        await _in(self._writing, self._writer.seal_if_old, self._now())
        await _in(self._publishing, self._keeper.sweep, self._now())

    async def _last_sweep(self, keeper: Keeper) -> None:
        try:
            await _in(self._publishing, lambda: keeper.sweep(self._now(), is_last=True))
        except Exception as error:
            self._log.error(
                "what was written is safe in the spool, but cannot be published now",
                reason=str(error),
            )

    def _tell(self, error: Exception) -> None:
        reason = str(error) or type(error).__name__
        if self._trouble.is_news(reason):
            self._log.error("files that are complete cannot be published yet", reason=reason)


async def _in(
    thread: ThreadPoolExecutor, function: Callable[..., _Result], *arguments: object
) -> _Result:
    return await asyncio.get_running_loop().run_in_executor(thread, function, *arguments)


async def _wait(event: asyncio.Event, longest_s: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(longest_s):
            await event.wait()
