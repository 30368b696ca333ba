"""ACKs and FAILs on their way: counted, gathered, repeated, and given up at the right moment."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import orjson
import pytest

from manyhands.shared.faktory import backoff
from manyhands.shared.faktory.lanes import CommandLanes
from manyhands.worker.jobs.outcomes import Failed
from manyhands.worker.source import results as results_module
from manyhands.worker.source.results import BATCH, MAX_ATTEMPTS, Results
from tests.support.fake_transport import FakeDialer
from tests.support.scripted_server import eventually

FAILED = Failed("ValueError", "no", ("line",))


class Desk:
    """Results over fake transports, and how often they asked to be sent."""

    def __init__(self, lanes: int = 1) -> None:
        self.dialer = FakeDialer()
        self.group = CommandLanes(self.dialer, lanes)
        self.changes = 0
        self.results = Results(self.group, self._changed)
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
async def desk(monkeypatch) -> AsyncIterator[Desk]:
    monkeypatch.setattr(backoff, "FIRST_DELAY_S", 0.0)
    monkeypatch.setattr(results_module, "REPEAT_AFTER_S", 0.0)
    desk = Desk()
    yield desk
    for task in desk.tasks:
        task.cancel()
    await asyncio.gather(*desk.tasks, return_exceptions=True)


async def test_an_ack_is_counted_until_it_is_answered(desk):
    await desk.up()
    desk.results.ack("12345678")
    assert (desk.results.unanswered, desk.changes) == (1, 1)
    await desk.send()
    assert desk.sent() == [b'ACK {"jid":"12345678"}']
    assert desk.results.unanswered == 1
    desk.answer(b"+OK\r\n")
    assert (desk.results.unanswered, desk.results.given_up) == (0, 0)
    assert desk.changes == 2


async def test_a_fail_says_why(desk):
    await desk.up()
    desk.results.fail("12345678", FAILED)
    await desk.send()
    (line,) = desk.sent()
    assert orjson.loads(line.removeprefix(b"FAIL ")) == {
        "jid": "12345678",
        "errtype": "ValueError",
        "message": "no",
        "backtrace": ["line"],
    }


async def test_results_are_gathered_into_few_writes(desk):
    await desk.up()
    for number in range(BATCH):
        desk.results.ack(f"job-{number:08}")
    assert desk.dialer.transport(0).writes == []
    await desk.send()
    assert len(desk.dialer.transport(0).writes) == 1
    assert len(desk.sent()) == BATCH


async def test_each_result_is_sent_once_however_often_sending_is_asked_for(desk):
    await desk.up()
    for number in range(3 * BATCH + 5):
        desk.results.ack(f"job-{number:08}")
    await desk.send()
    await desk.send()
    assert len(desk.sent()) == 3 * BATCH + 5
    assert len(set(desk.sent())) == 3 * BATCH + 5


async def test_a_result_is_sent_again_after_a_lost_connection(desk):
    await desk.up()
    desk.results.ack("12345678")
    await desk.send()
    desk.dialer.connections[0].connection_lost(None)
    assert desk.results.unanswered == 1
    await desk.up()
    await asyncio.sleep(0)
    assert desk.sent(1) == [b'ACK {"jid":"12345678"}']
    desk.answer(b"+OK\r\n", 1)
    assert desk.results.unanswered == 0


async def test_a_fail_whose_job_is_gone_was_heard_before(desk):
    await desk.up()
    desk.results.fail("12345678", FAILED)
    await desk.send()
    desk.answer(b"-ERR Job not found 12345678\r\n")
    assert (desk.results.unanswered, desk.results.given_up) == (0, 0)


async def test_a_refused_result_is_repeated_a_few_times_and_then_given_up(desk):
    await desk.up()
    desk.results.ack("12345678")
    await desk.send()
    for attempt in range(1, MAX_ATTEMPTS):
        desk.answer(b"-ERR out of memory\r\n")
        assert desk.results.unanswered == 1
        await eventually(partial(desk.has_sent, attempt + 1))
    desk.answer(b"-ERR out of memory\r\n")
    assert (desk.results.unanswered, desk.results.given_up) == (0, 1)
    assert len(desk.sent()) == MAX_ATTEMPTS


async def test_a_refusal_that_passes_is_no_loss(desk):
    await desk.up()
    desk.results.ack("12345678")
    await desk.send()
    desk.answer(b"-ERR out of memory\r\n")
    await eventually(lambda: len(desk.sent()) == 2)
    desk.answer(b"+OK\r\n")
    assert (desk.results.unanswered, desk.results.given_up) == (0, 0)


async def test_a_fail_whose_reservation_ended_while_it_waited_is_given_up(desk):
    now = asyncio.get_running_loop().time()
    desk.results.fail("12345678", FAILED, reserved_until=now - 1)
    desk.results.send_collected()
    await desk.up()
    await asyncio.sleep(0)
    assert desk.sent() == []
    assert (desk.results.unanswered, desk.results.given_up) == (0, 1)


async def test_a_fail_whose_reservation_has_ended_is_not_sent_over_a_lane_that_is_up(desk):
    await desk.up()
    now = asyncio.get_running_loop().time()
    desk.results.fail("12345678", FAILED, reserved_until=now - 1)
    await desk.send()
    assert desk.sent() == []
    assert (desk.results.unanswered, desk.results.given_up) == (0, 1)


async def test_an_ack_has_no_end(desk):
    desk.results.ack("12345678")
    desk.results.send_collected()
    desk.group.send_waiting()
    assert (desk.results.unanswered, desk.results.given_up) == (1, 0)


async def test_flushed_waits_for_the_last_answer(desk):
    await desk.up()
    await desk.results.flushed()
    desk.results.ack("12345678")
    desk.results.ack("87654321")
    flushed = asyncio.create_task(desk.results.flushed())
    await desk.send()
    desk.answer(b"+OK\r\n")
    await asyncio.sleep(0)
    assert not flushed.done()
    desk.answer(b"+OK\r\n")
    await flushed
