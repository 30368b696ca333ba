"""All sinks together: a job goes on when each of them has its records."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from manyhands.shared.errors import ConfigError
from manyhands.shared.settings import SinksSettings
from manyhands.worker.records import Capture, PageRecord, PlainRecord
from manyhands.worker.sinks import lane
from manyhands.worker.sinks import sinks as coordinator
from manyhands.worker.sinks.protocol import RecordsRefused, SinkDown
from manyhands.worker.sinks.sinks import Sinks
from tests.support.scripted_server import eventually
from tests.unit.worker.sinks.made_up import ScriptedSink, capture, page, plain


@asynccontextmanager
async def running(*sinks: ScriptedSink, **settings: Any) -> AsyncIterator[Sinks]:
    together = Sinks(sinks, SinksSettings(**({"delay_s": 0.01} | settings)))
    task = asyncio.create_task(together.run())
    try:
        yield together
    finally:
        task.cancel()
        await asyncio.wait([task])


def value(sinks: Sinks, name: str, label: str | None = None) -> float:
    (family,) = (one for one in sinks.families() if one.name == f"manyhands_worker_{name}")
    (sample,) = (one for one in family.samples if label is None or one.labels == [label])
    return sample.value


async def test_records_are_durable_when_every_sink_has_them():
    first, second = ScriptedSink("first"), ScriptedSink("second")
    second.is_up.clear()
    async with running(first, second) as sinks:
        durable = sinks.write([plain("a"), plain("b")])
        await eventually(lambda: first.ids == ["a", "b"])
        assert not durable.done()
        assert value(sinks, "sink_pending_records") == 2
        second.is_up.set()
        await durable
    assert second.ids == ["a", "b"]
    assert value(sinks, "sink_pending_records") == 0


async def test_a_sink_gets_only_the_kinds_that_it_wants():
    archive = ScriptedSink("archive", frozenset({Capture}))
    table = ScriptedSink("table", frozenset({PageRecord}))
    async with running(archive, table) as sinks:
        assert sinks.takes(Capture)
        assert sinks.takes(PageRecord)
        assert not sinks.takes(PlainRecord)
        await sinks.write([capture("c"), page("p")])
        # Nobody wants it, so nobody waits for it.
        await sinks.write([plain("x")])
    assert (archive.ids, table.ids) == (["c"], ["p"])


async def test_records_of_many_jobs_are_written_together():
    sink = ScriptedSink()
    async with running(sink, delay_s=0.05) as sinks:
        await asyncio.gather(*(sinks.write([plain(str(number))]) for number in range(50)))
    assert len(sink.batches) == 1


async def test_what_comes_during_a_write_is_the_next_batch():
    sink = ScriptedSink()
    sink.is_up.clear()
    async with running(sink, delay_s=0) as sinks:
        first = sinks.write([plain("a")])
        await eventually(lambda: sink.attempts == 1)
        others = [sinks.write([plain("b")]), sinks.write([plain("c")])]
        sink.is_up.set()
        await asyncio.gather(first, *others)
    assert sink.batches == [["a"], ["b", "c"]]


async def test_a_batch_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lane, "BATCH_RECORDS", 3)
    sink = ScriptedSink()
    async with running(sink, delay_s=10) as sinks:
        writes = [sinks.write([plain(f"{number}a"), plain(f"{number}b")]) for number in range(3)]
        # Enough for one batch each; the last one is alone and would wait for others.
        await asyncio.gather(*writes[:2])
        assert sink.batches == [["0a", "0b"], ["1a", "1b"]]
        assert not writes[2].done()
        sinks.hurry()
        await writes[2]


async def test_each_job_goes_on_as_soon_as_its_own_records_are_safe():
    quick, slow = ScriptedSink("quick"), ScriptedSink("slow", frozenset({PageRecord}))
    slow.is_up.clear()
    async with running(quick, slow) as sinks:
        waits = sinks.write([page("p")])
        await sinks.write([plain("a")])
        assert not waits.done()
        slow.is_up.set()
        await waits


async def test_a_sink_that_fails_is_given_the_same_records_again_until_it_has_them():
    sink = ScriptedSink()
    sink.errors = [OSError("disk full"), ConfigError("the password was changed")]
    async with running(sink) as sinks:
        await sinks.write([plain("a")])
        assert value(sinks, "sink_failures_total", "made-up") == 2
    assert (sink.ids, sink.attempts) == (["a"], 3)


async def test_one_that_is_down_at_the_start_is_opened_when_it_is_back():
    sink = ScriptedSink()
    sink.open_errors = [ConnectionRefusedError("no"), ConnectionRefusedError("no")]
    async with running(sink) as sinks:
        await sinks.write([plain("a")])
    assert sink.ids == ["a"]


async def test_one_that_can_never_be_opened_ends_the_worker():
    sink = ScriptedSink()
    sink.open_errors = [ConfigError("no such bucket")]
    with pytest.raises(ExceptionGroup) as ended:
        await Sinks([sink], SinksSettings()).run()
    assert ended.group_contains(ConfigError, match="no such bucket")


async def test_records_that_can_never_be_written_fail_their_job_and_no_other():
    sink = ScriptedSink()
    sink.refused = {"bad": "not JSON"}
    async with running(sink) as sinks:
        good, bad, last = (sinks.write([plain(name), plain(name + "2")]) for name in GOOD_BAD_LAST)
        with pytest.raises(RecordsRefused, match="made-up: not JSON"):
            await bad
        await asyncio.gather(good, last)
        assert value(sinks, "sink_refused_total", "made-up") == 1
    assert sink.ids == ["good", "good2", "last", "last2"]


GOOD_BAD_LAST = ("good", "bad", "last")


async def test_records_of_a_cancelled_job_are_not_tried_for_ever():
    sink = ScriptedSink()
    sink.is_up.clear()
    async with running(sink, delay_s=0) as sinks:
        abandoned = sinks.write([plain("gone")])
        await eventually(lambda: sink.attempts == 1)
        waits = sinks.write([plain("b")])
        abandoned.cancel()
        await asyncio.sleep(0)
        assert value(sinks, "sink_pending_records") == 1
        sink.errors = [OSError("broken")]
        sink.is_up.set()
        await waits
    assert sink.ids == ["b"]


async def test_beyond_the_bound_there_is_no_room_until_something_is_written(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(coordinator, "MOST_PENDING_RECORDS", 2)
    sink = ScriptedSink()
    sink.is_up.clear()
    async with running(sink) as sinks:
        await sinks.room()
        durable = sinks.write([plain("a"), plain("b")])
        room = asyncio.create_task(sinks.room())
        await eventually(lambda: sink.attempts == 1)
        assert not room.done()
        sink.is_up.set()
        await asyncio.gather(durable, room)


async def test_bytes_are_bounded_too(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(coordinator, "MOST_PENDING_BYTES", 1000)
    sink = ScriptedSink(kinds=frozenset({Capture}))
    sink.is_up.clear()
    async with running(sink) as sinks:
        durable = sinks.write([capture("c", b"x" * 2000)])
        room = asyncio.create_task(sinks.room())
        await asyncio.sleep(0)
        assert not room.done()
        sink.is_up.set()
        await asyncio.gather(durable, room)


async def test_who_stops_waits_for_no_sink_that_is_down():
    sink = ScriptedSink()
    sink.errors = [OSError("down")] * 1000
    async with running(sink) as sinks:
        durable = sinks.write([plain("a")])
        await eventually(lambda: sink.attempts > 1)
        sinks.hurry()
        with pytest.raises(SinkDown, match="made-up: down"):
            await durable


async def test_who_stops_before_a_sink_is_up_waits_for_it_no_longer():
    sink = ScriptedSink()
    sink.open_errors = [OSError("down")] * 1000
    sink.errors = [OSError("not open")]
    async with running(sink) as sinks:
        durable = sinks.write([plain("a")])
        sinks.hurry()
        with pytest.raises(SinkDown):
            await durable


@pytest.mark.parametrize(
    ("is_parallel", "most_at_once"), [(True, 3), (False, 1)], ids=["parallel", "in turns"]
)
async def test_sinks_write_at_the_same_time_unless_told_otherwise(
    is_parallel: bool, most_at_once: int
):
    under_way, most = 0, 0

    class Watched(ScriptedSink):
        async def write(self, records: Any) -> None:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0.02)
            under_way -= 1

    sinks = [Watched(name) for name in ("a", "b", "c")]
    async with running(*sinks, parallel=is_parallel) as together:
        await together.write([plain("x")])
    assert most == most_at_once


async def test_edges_are_counted_when_they_are_safe():
    sink = ScriptedSink()
    async with running(sink) as sinks:
        await sinks.write([page("p", "http://b.example/", "http://c.example/"), plain("x")])
        assert value(sinks, "edges_total") == 2
        assert value(sinks, "sink_records_total", "made-up") == 2


async def test_the_oldest_that_waits_is_told():
    sink = ScriptedSink()
    sink.is_up.clear()
    async with running(sink) as sinks:
        assert value(sinks, "sink_oldest_pending_seconds") == 0
        sinks.write([plain("a")])
        await asyncio.sleep(0.01)
        assert value(sinks, "sink_oldest_pending_seconds") > 0


async def test_all_are_closed_though_one_cannot_be(monkeypatch: pytest.MonkeyPatch):
    broken, sink = ScriptedSink("broken"), ScriptedSink()

    async def fail() -> None:
        raise OSError("still down")

    monkeypatch.setattr(broken, "close", fail)
    await Sinks([broken, sink], SinksSettings()).close()
    assert sink.is_closed
