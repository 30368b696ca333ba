"""The records on their way to one sink: gathered into batches, written, and retried until the sink
has them."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from manyhands.shared.errors import ConfigError
from manyhands.shared.faktory.backoff import Backoff
from manyhands.shared.histogram import Histogram
from manyhands.shared.logs import get_logger
from manyhands.shared.trouble import Trouble
from manyhands.worker.records import Record
from manyhands.worker.service.families import DURATION_BOUNDS_S
from manyhands.worker.sinks.protocol import RecordsRefused, Sink, SinkDown

# Most records and bytes of a batch: a sink writes it in well under a second.
BATCH_RECORDS = 2000
BATCH_BYTES = 16 * 1024 * 1024
# How often to log the same trouble.
TELL_EVERY_S = 60.0


@dataclass(slots=True, eq=False)
class Entry:
    """Records of one job for one sink. `settled` is called once: with None, or with the error."""

    records: list[Record]
    size: int
    since: float
    settled: Callable[[Exception | None], None]
    is_abandoned: bool = False


@dataclass(slots=True)
class LaneFigures:
    """`durations` are those of writes, in seconds."""

    records: int = 0
    failures: int = 0
    refused: int = 0
    durations: Histogram = field(default_factory=lambda: Histogram(DURATION_BOUNDS_S))

    def flushed(self, records: int, took_s: float) -> None:
        self.records += records
        self.durations.add(took_s)


class SinkLane:
    """State: what waits and what is being written, the last trouble with the sink, and whether we
    are about to stop. `turn` is entered for each write: all lanes share one if they are to take
    turns."""

    def __init__(
        self, sink: Sink, delay_s: float, turn: AbstractAsyncContextManager[object]
    ) -> None:
        self.sink = sink
        self.figures = LaneFigures()
        self._delay_s = delay_s
        self._turn = turn
        self._waiting: deque[Entry] = deque()
        self._writing: list[Entry] = []
        self._records = 0
        self._bytes = 0
        self._is_there_some = asyncio.Event()
        self._is_batch_full = asyncio.Event()
        self._stopping = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._trouble = Trouble(TELL_EVERY_S, self._loop.time)
        self._log = get_logger("sink").bind(sink=sink.name)

    def add(self, entry: Entry) -> None:
        self._waiting.append(entry)
        self._records += len(entry.records)
        self._bytes += entry.size
        self._is_there_some.set()
        if self._stopping.is_set() or self._records >= BATCH_RECORDS or self._bytes >= BATCH_BYTES:
            self._is_batch_full.set()

    def waits_s(self) -> float:
        """How long its oldest record has waited."""
        oldest = next(chain(self._writing, self._waiting), None)
        return 0.0 if oldest is None else self._loop.time() - oldest.since

    def hurry(self) -> None:
        """We are about to stop: wait for no more records, and for no sink that is down."""
        self._stopping.set()
        self._is_batch_full.set()

    async def open(self) -> None:
        """Until the sink is open. Raises ConfigError when it never can be, SinkDown when we
        stop."""
        await self._again_and_again(self.sink.open, (ConfigError,))

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._is_there_some.wait()
            await self._gather()
            self._writing = self._take()
            try:
                await self._write(self._writing)
            finally:
                self._writing = []

    async def _gather(self) -> None:
        """Until the oldest has waited long enough for others, or there are enough of them."""
        try:
            async with asyncio.timeout_at(self._waiting[0].since + self._delay_s):
                await self._is_batch_full.wait()
        except TimeoutError:
            return

    def _take(self) -> list[Entry]:
        batch: list[Entry] = []
        records = size = 0
        while self._waiting:
            entry = self._waiting[0]
            records += len(entry.records)
            size += entry.size
            if batch and (records > BATCH_RECORDS or size > BATCH_BYTES):
                break
            batch.append(self._waiting.popleft())
        self._records -= sum(len(entry.records) for entry in batch)
        self._bytes -= sum(entry.size for entry in batch)
        if not self._waiting:
            self._is_there_some.clear()
        is_full = self._records >= BATCH_RECORDS or self._bytes >= BATCH_BYTES
        if not is_full and not self._stopping.is_set():
            self._is_batch_full.clear()
        return batch

    async def _write(self, batch: list[Entry]) -> None:
        """Until each of them is written or refused."""
        while batch:
            try:
                await self._again_and_again(partial(self._write_once, batch), (RecordsRefused,))
            except RecordsRefused as refused:
                batch = self._refuse(batch, refused)
            except SinkDown as down:
                _settle(batch, down)
                return
            else:
                _settle(batch, None)
                return

    async def _write_once(self, batch: list[Entry]) -> None:
        """Leaves out of a repeated batch what nobody waits for any more."""
        batch[:] = [entry for entry in batch if not entry.is_abandoned]
        records = [record for entry in batch for record in entry.records]
        if not records:
            return
        async with self._turn:
            started_at = time.perf_counter()
            await self.sink.write(records)
        self.figures.flushed(len(records), time.perf_counter() - started_at)

    def _refuse(self, batch: list[Entry], refused: RecordsRefused) -> list[Entry]:
        """Fail those whose records the sink can never take; returns the others."""
        left: list[Entry] = []
        position = 0
        for entry in batch:
            places = range(position, position + len(entry.records))
            position = places.stop
            reasons = [refused.reasons[place] for place in places if place in refused.reasons]
            if reasons:
                self.figures.refused += len(reasons)
                entry.settled(RecordsRefused({0: f"{self.sink.name}: {reasons[0]}"}))
            else:
                left.append(entry)
        if len(left) == len(batch):
            raise AssertionError(f"{self.sink.name} refused records that it was not given")
        return left

    async def _again_and_again(
        self, attempt: Callable[[], Awaitable[None]], final: tuple[type[Exception], ...]
    ) -> None:
        """Repeat until it works. Raises errors of the `final` types, and SinkDown when it fails
        while we stop."""
        backoff = Backoff()
        while True:
            try:
                await attempt()
            except final:
                raise
            except Exception as error:
                self.figures.failures += 1
                self._tell(error)
                if self._stopping.is_set():
                    raise SinkDown(f"{self.sink.name}: {error}") from error
            else:
                if self._trouble.end():
                    self._log.info("the sink takes records again")
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(backoff.next_delay_s()):
                    await self._stopping.wait()

    def _tell(self, error: Exception) -> None:
        reason = str(error) or type(error).__name__
        if self._trouble.is_news(reason):
            self._log.error("the sink takes no records: their jobs wait", reason=reason)


def _settle(batch: list[Entry], error: Exception | None) -> None:
    for entry in batch:
        entry.settled(error)
