"""All sinks of a process: records go to every sink that wants them, and a job continues when all of
these have them.

Sinks write at the same time, so a job waits for the slowest, not for the sum. Waiting records are
bounded: beyond the bound jobs keep their slots, and no more jobs are taken.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass

from manyhands.shared.logs import get_logger
from manyhands.shared.settings import SinksSettings
from manyhands.worker.records import PageRecord, Record
from manyhands.worker.service.families import (
    DURATION_BOUNDS_S,
    family,
    filled,
    of_histogram,
    single,
)
from manyhands.worker.service.link import Family, Sample, SlowSink
from manyhands.worker.sinks.lane import Entry, SinkLane
from manyhands.worker.sinks.protocol import Sink, SinkDown

# Of one process. A record is held once, however many sinks want it.
MOST_PENDING_BYTES = 64 * 1024 * 1024
MOST_PENDING_RECORDS = 20_000
# Records wait a moment for others, and a write takes another.
SLOW_S = 3.0

PENDING = family("sink_pending_records", "gauge", "Records that not all of their sinks have")
OLDEST = family(
    "sink_oldest_pending_seconds", "gauge", "How long the oldest of these records has waited"
)
RECORDS = family("sink_records_total", "counter", "Records that a sink has", "sink")
EDGES = family("edges_total", "counter", "Links of the pages that all of their sinks have")
FLUSH = family(
    "sink_flush_seconds",
    "histogram",
    "From the start of a write until the sink has it",
    "sink",
    bounds=DURATION_BOUNDS_S,
)
FAILURES = family("sink_failures_total", "counter", "Writes that failed and are repeated", "sink")
REFUSED = family(
    "sink_refused_total", "counter", "Records that the sink can never take; their jobs fail", "sink"
)
# All figures of a process's sinks.
FAMILIES = (PENDING, OLDEST, RECORDS, EDGES, FLUSH, FAILURES, REFUSED)


@dataclass(slots=True, eq=False)
class _Pending:
    """Records of one job on their way. `left` are the sinks that do not have them yet."""

    durable: "asyncio.Future[None]"
    records: Sequence[Record]
    size: int
    since: float
    left: int = 0


class Sinks:
    """State: the lanes, and the records on their way, in order of arrival."""

    def __init__(self, sinks: Sequence[Sink], settings: SinksSettings) -> None:
        self._loop = asyncio.get_running_loop()
        turn = nullcontext() if settings.parallel else asyncio.Lock()
        self._lanes = [SinkLane(sink, settings.delay_s, turn) for sink in sinks]
        self._by_kind: dict[type, list[SinkLane]] = {}
        for lane in self._lanes:
            for kind in lane.sink.kinds:
                self._by_kind.setdefault(kind, []).append(lane)
        # A dict for its order.
        self._pending: dict[_Pending, None] = {}
        self._pending_records = 0
        self._pending_bytes = 0
        self._edges = 0
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._log = get_logger("sink")

    @property
    def names(self) -> list[str]:
        return [lane.sink.name for lane in self._lanes]

    def takes(self, kind: type) -> bool:
        return kind in self._by_kind

    async def run(self) -> None:
        """Open them all, and write until cancelled. Raises ConfigError when one can never open."""
        async with asyncio.TaskGroup() as tasks:
            for lane in self._lanes:
                tasks.create_task(_open_and_run(lane), name=f"sink {lane.sink.name}")

    async def room(self) -> None:
        """Wait until more may be written."""
        await self._has_room.wait()

    def write(self, records: Sequence[Record]) -> "asyncio.Future[None]":
        """Done when every sink that accepts these records has stored them. Raises RecordsRefused if
        a sink never will, SinkDown if we stop first. After a cancellation they may or may not
        have been written."""
        durable = self._loop.create_future()
        sizes = [record.weight for record in records]
        size = sum(sizes)
        pending = _Pending(durable, records, size, self._loop.time())
        entries = self._entries(pending, sizes)
        if not entries:
            durable.set_result(None)
            return durable
        pending.left = len(entries)
        self._pending[pending] = None
        self._count(len(records), size)
        durable.add_done_callback(lambda _: self._forget(pending, entries))
        # The slowest first: the others would hold it up before they wait.
        for lane in sorted(entries, key=lambda lane: lane.figures.durations.mean, reverse=True):
            lane.add(entries[lane])
        return durable

    def slow_one(self) -> SlowSink | None:
        """The slowest, if any is slow."""
        slowest = max(self._lanes, key=SinkLane.waits_s, default=None)
        if slowest is None or slowest.waits_s() < SLOW_S:
            return None
        return SlowSink(slowest.sink.name, slowest.waits_s())

    def hurry(self) -> None:
        """We are about to stop: write what is here at once, and give up a sink that is down."""
        for lane in self._lanes:
            lane.hurry()

    async def close(self) -> None:
        """After `run` has ended."""
        for lane in self._lanes:
            try:
                await lane.sink.close()
            except Exception as error:
                self._log.error("closing a sink", sink=lane.sink.name, reason=str(error))

    def families(self) -> Iterable[Family]:
        oldest = next(iter(self._pending), None)
        yield single(PENDING, self._pending_records)
        yield single(OLDEST, 0.0 if oldest is None else self._loop.time() - oldest.since)
        yield single(EDGES, self._edges)
        figures = {lane.sink.name: lane.figures for lane in self._lanes}
        for empty, name in ((RECORDS, "records"), (FAILURES, "failures"), (REFUSED, "refused")):
            values = [Sample([sink], getattr(one, name)) for sink, one in figures.items()]
            yield filled(empty, values)
        yield filled(
            FLUSH,
            [of_histogram([sink], one.durations) for sink, one in figures.items()],
        )

    def _entries(self, pending: _Pending, sizes: Sequence[int]) -> dict[SinkLane, Entry]:
        entries: dict[SinkLane, Entry] = {}
        for record, size in zip(pending.records, sizes, strict=True):
            for lane in self._by_kind.get(type(record), ()):
                entry = entries.get(lane)
                if entry is None:
                    entry = Entry([], 0, pending.since, lambda error: _settled(pending, error))
                    entries[lane] = entry
                entry.records.append(record)
                entry.size += size
        return entries

    def _count(self, records: int, size: int) -> None:
        self._pending_records += records
        self._pending_bytes += size
        if (
            self._pending_records < MOST_PENDING_RECORDS
            and self._pending_bytes < MOST_PENDING_BYTES
        ):
            self._has_room.set()
        else:
            self._has_room.clear()

    def _forget(self, pending: _Pending, entries: dict[SinkLane, Entry]) -> None:
        del self._pending[pending]
        self._count(-len(pending.records), -pending.size)
        if pending.durable.cancelled() or pending.durable.exception() is not None:
            for entry in entries.values():
                entry.is_abandoned = True
        else:
            self._edges += sum(
                len(record.links) for record in pending.records if isinstance(record, PageRecord)
            )


def _settled(pending: _Pending, error: Exception | None) -> None:
    """Of one sink."""
    pending.left -= 1
    if pending.durable.done():
        return
    if error is not None:
        pending.durable.set_exception(error)
    elif not pending.left:
        pending.durable.set_result(None)


async def _open_and_run(lane: SinkLane) -> None:
    # If it did not open before we stop, its writes fail and report that.
    with suppress(SinkDown):
        await lane.open()
    await lane.run()
