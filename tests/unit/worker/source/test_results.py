"""ACKs and FAILs on their way: counted, gathered, repeated, and given up at the right moment."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import orjson
import pytest

from manyhands.shared.faktory import backoff
from manyhands.shared.faktory.client import FaktoryVerbs
from manyhands.shared.faktory.lanes import CommandLanes
from manyhands.worker.jobs.outcomes import Failed
from manyhands.worker.source import results as results_module
from manyhands.worker.source.results import BATCH, MAX_ATTEMPTS, Results
from tests.support.fake_transport import FakeDialer
from tests.support.scripted_server import eventually

FAILED = Failed("ValueError", "no", ("line",))


class Bench:
    """Results over fake transports, and how often they asked to be sent."""

    def __init__(self, lanes: int = 1) -> None:
        self.dialer = FakeDialer()
        self.group = CommandLanes(self.dialer, lanes)
        self.changes = 0
        self.results = Results(self.group, FaktoryVerbs(self.group), self._changed)
        self.tasks = [asyncio.create_task(lane.run()) for lane in self.group.lanes]

    def _changed(self) -> None:
        self.changes += 1

    async def up(self) -> None:
        before = len(self.dialer.connections)
        self.dialer.let_in(len(self.group.lanes))
        await eventually(lambda: len(self.dialer.connections) == before + len(self.group.lanes))
        await eventually(lambda: all(lane.connection for lane in self.group.lanes))

    async def send(self) -> None:
        self.results.send_collected()
        await asyncio.sleep(0)

    def sent(self, connection: int = 0) -> list[bytes]:
        return self.dialer.transport(connection).sent.splitlines()

    def has_sent(self, count: int) -> bool:
        return len(self.sent()) == count

    def answer(self, data: bytes, connection: int = 0) -> None:
        self.dialer.connections[connection].data_received(data)


@pytest.fixture
async def bench(monkeypatch) -> AsyncIterator[Bench]:
    monkeypatch.setattr(backoff, "FIRST_DELAY_S", 0.0)
    monkeypatch.setattr(results_module, "REPEAT_AFTER_S", 0.0)
    bench = Bench()
    yield bench
    for task in bench.tasks:
        task.cancel()
    await asyncio.gather(*bench.tasks, return_exceptions=True)


async def test_an_ack_is_counted_until_it_is_answered(bench):
    await bench.up()
    bench.results.ack("12345678")
    assert (bench.results.unanswered, bench.changes) == (1, 1)
    await bench.send()
    assert bench.sent() == [b'ACK {"jid":"12345678"}']
    assert bench.results.unanswered == 1
    bench.answer(b"+OK\r\n")
    assert (bench.results.unanswered, bench.results.given_up) == (0, 0)
    assert bench.changes == 2


async def test_a_fail_says_why(bench):
    await bench.up()
    bench.results.fail("12345678", FAILED)
    await bench.send()
    (line,) = bench.sent()
    assert orjson.loads(line.removeprefix(b"FAIL ")) == {
        "jid": "12345678",
        "errtype": "ValueError",
        "message": "no",
        "backtrace": ["line"],
    }


async def test_results_are_gathered_into_few_writes(bench):
    await bench.up()
    for number in range(BATCH):
        bench.results.ack(f"job-{number:08}")
    assert bench.dialer.transport(0).writes == []
    await bench.send()
    assert len(bench.dialer.transport(0).writes) == 1
    assert len(bench.sent()) == BATCH


async def test_each_result_is_sent_once_however_often_sending_is_asked_for(bench):
    await bench.up()
    for number in range(3 * BATCH + 5):
        bench.results.ack(f"job-{number:08}")
    await bench.send()
    await bench.send()
    assert len(bench.sent()) == 3 * BATCH + 5
    assert len(set(bench.sent())) == 3 * BATCH + 5


async def test_a_result_is_sent_again_after_a_lost_connection(bench):
    await bench.up()
    bench.results.ack("12345678")
    await bench.send()
    bench.dialer.connections[0].connection_lost(None)
    assert bench.results.unanswered == 1
    await bench.up()
    await asyncio.sleep(0)
    assert bench.sent(1) == [b'ACK {"jid":"12345678"}']
    bench.answer(b"+OK\r\n", 1)
    assert bench.results.unanswered == 0


async def test_a_fail_whose_job_is_gone_was_heard_before(bench):
    await bench.up()
    bench.results.fail("12345678", FAILED)
    await bench.send()
    bench.answer(b"-ERR Job not found 12345678\r\n")
    assert (bench.results.unanswered, bench.results.given_up) == (0, 0)


async def test_a_refused_result_is_repeated_a_few_times_and_then_given_up(bench):
    await bench.up()
    bench.results.ack("12345678")
    await bench.send()
    for attempt in range(1, MAX_ATTEMPTS):
        bench.answer(b"-ERR out of memory\r\n")
        assert bench.results.unanswered == 1
        await eventually(partial(bench.has_sent, attempt + 1))
    bench.answer(b"-ERR out of memory\r\n")
    assert (bench.results.unanswered, bench.results.given_up) == (0, 1)
    assert len(bench.sent()) == MAX_ATTEMPTS


async def test_a_refusal_that_passes_is_no_loss(bench):
    await bench.up()
    bench.results.ack("12345678")
    await bench.send()
    bench.answer(b"-ERR out of memory\r\n")
    await eventually(lambda: len(bench.sent()) == 2)
    bench.answer(b"+OK\r\n")
    assert (bench.results.unanswered, bench.results.given_up) == (0, 0)


async def test_a_fail_whose_reservation_ended_while_it_waited_is_given_up(bench):
    now = asyncio.get_running_loop().time()
    bench.results.fail("12345678", FAILED, reserved_until=now - 1)
    bench.results.send_collected()
    await bench.up()
    await asyncio.sleep(0)
    assert bench.sent() == []
    assert (bench.results.unanswered, bench.results.given_up) == (0, 1)


async def test_a_fail_whose_reservation_has_ended_is_not_sent_over_a_lane_that_is_up(bench):
    await bench.up()
    now = asyncio.get_running_loop().time()
    bench.results.fail("12345678", FAILED, reserved_until=now - 1)
    await bench.send()
    assert bench.sent() == []
    assert (bench.results.unanswered, bench.results.given_up) == (0, 1)


async def test_an_ack_has_no_end(bench):
    bench.results.ack("12345678")
    bench.results.send_collected()
    bench.group.send_waiting()
    assert (bench.results.unanswered, bench.results.given_up) == (1, 0)


async def test_flushed_waits_for_the_last_answer(bench):
    await bench.up()
    await bench.results.flushed()
    bench.results.ack("12345678")
    bench.results.ack("87654321")
    flushed = asyncio.create_task(bench.results.flushed())
    await bench.send()
    bench.answer(b"+OK\r\n")
    await asyncio.sleep(0)
    assert not flushed.done()
    bench.answer(b"+OK\r\n")
    await flushed
