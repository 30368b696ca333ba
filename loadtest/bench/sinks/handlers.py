"""The process of `bench-sinks` that writes batches: `python -m loadtest.bench.sinks.handlers
ORDER`, the order being a BatchOrder as JSON. Its name lets it know the worker, whose sinks it
measures.

The sides take turns, batch by batch, each with the same records and with places of its own: what
changes on the machine meanwhile, changes for all of them.
"""

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import uvloop

from loadtest.bench.sinks.cells import (
    LINKS,
    RECORDS,
    REST_S,
    SEQUENTIAL,
    SLEEPING,
    WARM_UP_BATCHES,
    BatchOrder,
    record_id,
)
from manyhands.shared.logs import configure_logs
from manyhands.shared.settings import SinksSettings
from manyhands.worker.records import PageRecord, Record
from manyhands.worker.sinks.kinds import EMITTED, make_sinks
from manyhands.worker.sinks.protocol import Sink
from manyhands.worker.sinks.sinks import FAILURES, Sinks


class SleepingSink:
    """A `Sink` that takes so long for a batch, whatever is in it. State: the ids that it has."""

    kinds: frozenset[type] = frozenset({PageRecord})

    def __init__(self, url: str) -> None:
        self.name = url
        self.ids: list[str] = []
        self._takes_s = int(url.partition(":")[2]) / 1000

    async def open(self) -> None:
        """Nothing to do."""

    async def write(self, records: Sequence[Record]) -> None:
        await asyncio.sleep(self._takes_s)
        self.ids += [record.id for record in records]

    async def close(self) -> None:
        """Nothing is open."""


@dataclass(slots=True)
class Side:
    """Milliseconds of each batch: on the clock, and of this process's processor time."""

    sinks: Sinks
    took_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)

    async def write(self, batch: Sequence[Record]) -> None:
        began_s, cpu_s = time.perf_counter(), time.process_time()
        await self.sinks.write(batch)
        self.took_ms.append((time.perf_counter() - began_s) * 1000)
        self.cpu_ms.append((time.process_time() - cpu_s) * 1000)

    def values(self) -> dict[str, float]:
        counted, cpu = (some[WARM_UP_BATCHES:] for some in (self.took_ms, self.cpu_ms))
        return {
            "ms": statistics.median(counted),
            "slowest_ms": max(counted),
            "cpu_ms": statistics.fmean(cpu),
        }


def make_batch(number: int) -> list[Record]:
    return [_page(number * RECORDS + place) for place in range(RECORDS)]


def _page(number: int) -> PageRecord:
    url = _url(number)
    return PageRecord(
        id=record_id(number),
        url=url,
        final_url=url,
        status=200,
        content_type="text/html; charset=utf-8",
        title=f"Article {number}: what was found in a page",
        language="en",
        links=[_url(number * 7 + link * 11) for link in range(LINKS)],
        is_truncated=False,
        fetched_at="2026-11-17T05:44:33.123456Z",
        crawl=1,
        visit=1,
        depth=number % 10,
    )


def _url(number: int) -> str:
    return f"https://w{number % 50}.site{number % 25}.test/articles/2026/11/{number}.html"


async def measure(order: BatchOrder) -> dict[str, dict[str, float]]:
    """The values of each side. Raises when a sink did not have everything at the first attempt."""
    made = {side: _make(urls) for side, urls in order.places.items()}
    sides = {side: Side(Sinks(sinks, _settings(side))) for side, sinks in made.items()}
    try:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(side.sinks.run()) for side in sides.values()]
            await _write_all(list(sides.values()), WARM_UP_BATCHES + order.batches)
            for task in running:
                task.cancel()
    finally:
        for side in sides.values():
            await side.sinks.close()
    for name, side in sides.items():
        _check_first_attempts(name, side.sinks)
        _check_sleeping(name, made[name], order)
    return {name: side.values() for name, side in sides.items()}


def _settings(side: str) -> SinksSettings:
    # No delay: there is nothing to gather.
    return SinksSettings(parallel=side != SEQUENTIAL, delay_s=0)


def _make(urls: Sequence[str]) -> list[Sink]:
    if all(url.startswith(f"{SLEEPING}:") for url in urls):
        return [SleepingSink(url) for url in urls]
    return make_sinks(urls, EMITTED)


async def _write_all(sides: Sequence[Side], batches: int) -> None:
    for number in range(batches):
        batch = make_batch(number)
        # Not in a fixed or rotated order: each would always have the same one before it.
        for side in Random(number).sample(sides, len(sides)):
            await asyncio.sleep(REST_S)
            await side.write(batch)


def _check_first_attempts(name: str, sinks: Sinks) -> None:
    for family in sinks.families():
        failed = sum(sample.value for sample in family.samples)
        if family.name == FAILURES.name and failed:
            raise RuntimeError(f"{name}: {failed:g} writes failed and were repeated")


def _check_sleeping(name: str, sinks: Sequence[Sink], order: BatchOrder) -> None:
    wanted = [record_id(number) for number in range(order.records)]
    for sink in sinks:
        if isinstance(sink, SleepingSink) and sink.ids != wanted:
            raise RuntimeError(f"{name}: {sink.name} has {len(sink.ids)} of {len(wanted)} records")


def main() -> int:
    # To stderr: what is printed here is the result.
    configure_logs("error", service="bench-sinks")
    order = BatchOrder(**json.loads(sys.argv[1]))
    print(json.dumps(uvloop.run(measure(order))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
