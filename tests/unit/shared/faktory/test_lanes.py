"""Lanes over fake transports: what is sent again, what is not, and who is told of a loss."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from manyhands.broker.manager import HOLD_AFTER_CRASH_S
from manyhands.shared.errors import ConnectFailed, ConnectionLost, FaktoryError
from manyhands.shared.faktory import backoff, lanes
from manyhands.shared.faktory.codec import Reply
from manyhands.shared.faktory.connection import Connection
from manyhands.shared.faktory.lanes import Command, CommandLanes, FetchEvents, FetchLane, Lane
from tests.support.fake_transport import FakeDialer
from tests.support.scripted_server import eventually


@pytest.fixture(autouse=True)
def reconnect_at_once(monkeypatch):
    monkeypatch.setattr(backoff, "FIRST_DELAY_S", 0.0)


@asynccontextmanager
async def running(*some: Lane) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(lane.run()) for lane in some]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def up(dialer: FakeDialer, group: CommandLanes, count: int) -> None:
    dialer.let_in(count)
    await eventually(lambda: sum(lane.connection is not None for lane in group.lanes) == count)


async def turn() -> None:
    await asyncio.sleep(0)


class Answers:
    """What the submitter of commands was told."""

    def __init__(self) -> None:
        self.got: list[tuple[str, Reply | FaktoryError]] = []

    def command(self, jid: str, *, is_kept: bool = False, expires_at: float = 1e18) -> Command:
        line = f"{jid}\r\n".encode()
        return Command(line, self._take, is_kept=is_kept, expires_at=expires_at, jid=jid)

    def _take(self, command: Command, reply: Reply | FaktoryError) -> None:
        self.got.append((command.jid, reply))


async def test_commands_go_round_the_lanes():
    dialer, answers = FakeDialer(), Answers()
    group = CommandLanes(dialer, 3)
    async with running(*group.lanes):
        await up(dialer, group, 3)
        for number in range(6):
            group.submit(answers.command(f"c{number}"))
        await turn()
        sent = sorted(dialer.transport(number).sent for number in range(3))
    assert sent == [b"c0\r\nc3\r\n", b"c1\r\nc4\r\n", b"c2\r\nc5\r\n"]


async def test_commands_that_belong_together_are_one_write_on_one_lane():
    dialer, answers = FakeDialer(), Answers()
    group = CommandLanes(dialer, 2)
    async with running(*group.lanes):
        await up(dialer, group, 2)
        group.submit_together([answers.command("a"), answers.command("b")])
        group.submit_together([answers.command("c")])
        await turn()
        writes = sorted(dialer.transport(number).writes for number in range(2))
    assert writes == [[b"a\r\nb\r\n"], [b"c\r\n"]]


async def test_each_answer_reaches_its_command():
    dialer, answers = FakeDialer(), Answers()
    group = CommandLanes(dialer, 1)
    async with running(*group.lanes):
        await up(dialer, group, 1)
        group.submit(answers.command("a"))
        group.submit(answers.command("b"))
        await turn()
        dialer.connections[0].data_received(b"+OK\r\n:7\r\n")
        assert answers.got == [("a", "OK"), ("b", 7)]


async def test_a_kept_command_is_sent_again_over_another_lane_and_another_one_is_not():
    dialer, answers = FakeDialer(), Answers()
    group = CommandLanes(dialer, 2)
    async with running(*group.lanes):
        await up(dialer, group, 2)
        group.submit_together(
            [
                answers.command("first", is_kept=True),
                answers.command("once"),
                answers.command("second", is_kept=True),
            ]
        )
        await turn()
        lost = 0 if dialer.transport(0).writes else 1
        dialer.connections[lost].connection_lost(None)
        await turn()
        other = dialer.transport(1 - lost)
        assert other.sent == b"first\r\nsecond\r\n"
        assert [jid for jid, _ in answers.got] == ["once"]
        assert isinstance(answers.got[0][1], ConnectionLost)
        dialer.connections[1 - lost].data_received(b"+OK\r\n+OK\r\n")
        assert answers.got[1:] == [("first", "OK"), ("second", "OK")]


async def test_kept_commands_go_before_what_waits_already():
    dialer, answers = FakeDialer(), Answers()
    group = CommandLanes(dialer, 1)
    async with running(*group.lanes):
        await up(dialer, group, 1)
        group.submit(answers.command("old", is_kept=True))
        dialer.connections[0].pause_writing()
        group.submit(answers.command("new"))
        assert group.unsent == 1
        dialer.connections[0].connection_lost(None)
        await up(dialer, group, 1)
        await turn()
        assert dialer.transport(1).sent == b"old\r\nnew\r\n"
        assert group.unsent == 0


async def test_a_command_without_a_lane_waits_for_one():
    dialer, answers = FakeDialer(), Answers()
    group = CommandLanes(dialer, 1)
    async with running(*group.lanes):
        group.submit(answers.command("early"))
        assert group.unsent == 1
        await up(dialer, group, 1)
        await turn()
        assert dialer.transport(0).sent == b"early\r\n"
        assert group.unsent == 0


async def test_a_full_socket_is_skipped_and_served_when_it_is_writable_again():
    dialer, answers = FakeDialer(), Answers()
    group = CommandLanes(dialer, 1)
    async with running(*group.lanes):
        await up(dialer, group, 1)
        dialer.connections[0].pause_writing()
        group.submit(answers.command("later"))
        await turn()
        assert dialer.transport(0).writes == []
        dialer.connections[0].resume_writing()
        await turn()
        assert dialer.transport(0).sent == b"later\r\n"


async def test_an_expired_command_is_not_sent_again_and_its_owner_is_told():
    dialer, answers = FakeDialer(), Answers()
    group = CommandLanes(dialer, 1)
    now = asyncio.get_running_loop().time()
    async with running(*group.lanes):
        await up(dialer, group, 1)
        command = answers.command("fail", is_kept=True, expires_at=now + 1000)
        group.submit(command)
        await turn()
        command.expires_at = now - 1
        dialer.connections[0].connection_lost(None)
        await up(dialer, group, 1)
        await turn()
        assert dialer.transport(1).writes == []
    assert [jid for jid, _ in answers.got] == ["fail"]
    assert isinstance(answers.got[0][1], ConnectionLost)


async def test_an_expired_command_that_waits_for_a_lane_is_given_up_at_the_next_look():
    answers = Answers()
    group = CommandLanes(FakeDialer(), 1)
    group.submit(answers.command("gone", is_kept=True, expires_at=0.0))
    group.submit(answers.command("fresh", is_kept=True))
    group.send_waiting()
    assert [jid for jid, _ in answers.got] == ["gone"]
    assert group.unsent == 1


async def test_a_command_that_is_expired_when_it_is_submitted_is_never_sent():
    dialer, answers = FakeDialer(), Answers()
    group = CommandLanes(dialer, 1)
    async with running(*group.lanes):
        await up(dialer, group, 1)
        group.submit(answers.command("late", is_kept=True, expires_at=0.0))
        await turn()
        assert dialer.transport(0).writes == []
    assert isinstance(answers.got[0][1], ConnectionLost)


async def test_a_withdrawn_command_that_was_not_sent_is_forgotten():
    dialer, answers = FakeDialer(), Answers()
    group = CommandLanes(dialer, 1)
    async with running(*group.lanes):
        unsent = answers.command("unsent")
        group.submit(unsent)
        assert group.withdraw(unsent)
        await up(dialer, group, 1)
        await turn()
        assert dialer.transport(0).writes == []
    assert answers.got == []


async def test_a_command_that_is_given_up_after_it_was_sent_closes_its_connection():
    dialer, answers = FakeDialer(), Answers()
    group = CommandLanes(dialer, 2)
    async with running(*group.lanes):
        await up(dialer, group, 2)
        sent = answers.command("sent")
        group.submit(sent)
        await turn()
        carrier = 0 if dialer.transport(0).writes else 1
        assert not group.withdraw(sent)
        assert not dialer.transport(carrier).is_aborted
        group.give_up_on(sent)
        assert dialer.transport(carrier).is_aborted
        assert not dialer.transport(1 - carrier).is_aborted


async def test_waiting_for_a_lane_ends_with_an_error_that_names_the_server():
    group = CommandLanes(FakeDialer(), 1)
    with pytest.raises(ConnectionLost, match=r"tcp://server\.example:7419"):
        await group.wait_up_within(0.01)


async def test_the_group_is_up_with_one_lane_and_down_without_any():
    dialer = FakeDialer()
    group = CommandLanes(dialer, 2)
    async with running(*group.lanes):
        await up(dialer, group, 1)
        await group.wait_up_within(0.01)
        dialer.connections[0].connection_lost(None)
        with pytest.raises(ConnectionLost):
            await group.wait_up_within(0.01)


async def test_big_integers_are_kept_only_if_every_connection_says_so():
    dialer = FakeDialer()
    group = CommandLanes(dialer, 2)
    assert not group.is_our_broker
    async with running(*group.lanes):
        dialer.extensions = 1
        await up(dialer, group, 1)
        assert group.is_our_broker
        dialer.extensions = 0
        dialer.let_in()
        await eventually(lambda: all(lane.connection for lane in group.lanes))
        assert not group.is_our_broker


async def test_lanes_that_are_added_later_carry_commands_too():
    dialer, answers = FakeDialer(), Answers()
    group = CommandLanes(dialer, 1)
    added = group.grow(1)
    async with running(*group.lanes):
        await up(dialer, group, 2)
        group.submit(answers.command("a"))
        group.submit(answers.command("b"))
        await turn()
        assert {dialer.transport(0).sent, dialer.transport(1).sent} == {b"a\r\n", b"b\r\n"}
    assert len(added) == 1


async def test_an_overdue_lane_is_closed_and_one_that_owes_nothing_is_not():
    dialer, answers = FakeDialer(), Answers()
    group = CommandLanes(dialer, 2)
    async with running(*group.lanes):
        await up(dialer, group, 2)
        group.submit(answers.command("a"))
        await turn()
        owing = 0 if dialer.transport(0).writes else 1
        now = asyncio.get_running_loop().time()
        group.look(now + lanes.PATIENCE_S - 1)
        assert not dialer.transport(owing).is_aborted
        group.look(now + lanes.PATIENCE_S + 1)
        assert dialer.transport(owing).is_aborted
        assert not dialer.transport(1 - owing).is_aborted


async def test_a_closed_group_does_not_come_back():
    dialer = FakeDialer()
    group = CommandLanes(dialer, 1)
    task = asyncio.create_task(group.lanes[0].run())
    await up(dialer, group, 1)
    group.close()
    dialer.let_in()
    await task
    assert len(dialer.connections) == 1
    assert dialer.transport(0).is_aborted


async def test_a_lane_ends_where_trying_again_cannot_help():
    class Refusing(FakeDialer):
        async def dial(self, wid: str | None = None) -> Connection:
            self.wids.append(wid)
            raise ConnectFailed("wrong password", is_retryable=len(self.wids) < 3)

    dialer = Refusing()
    group = CommandLanes(dialer, 1)
    with pytest.raises(ConnectFailed, match="wrong password"):
        await group.lanes[0].run()
    assert len(dialer.wids) == 3


# Fetch lanes


class Told(FetchEvents):
    def __init__(self) -> None:
        self.ups: list[str] = []
        self.downs: list[tuple[str, int]] = []
        self.answers: list[tuple[Reply, float]] = []

    def lane_up(self, lane: FetchLane) -> None:
        self.ups.append(lane.wid)

    def lane_down(self, lane: FetchLane, wid: str, unanswered: int) -> None:
        assert lane.outstanding == 0
        self.downs.append((wid, unanswered))

    def fetch_answered(self, lane: FetchLane, reply: Reply, reserved_after: float) -> None:
        self.answers.append((reply, reserved_after))


async def test_a_fetch_lane_takes_a_new_id_with_every_connection_and_never_repeats_a_fetch():
    dialer, told = FakeDialer(), Told()
    lane = FetchLane(dialer, told)
    async with running(lane):
        dialer.let_in()
        await eventually(lambda: told.ups)
        for _ in range(3):
            lane.fetch(b"FETCH default\r\n", 1.0)
        await turn()
        assert lane.outstanding == 3
        dialer.connections[0].data_received(b"$-1\r\n")
        assert lane.outstanding == 2
        first = lane.wid
        dialer.connections[0].connection_lost(None)
        assert told.downs == [(first, 2)]
        dialer.let_in()
        await eventually(lambda: len(told.ups) == 2)
        await turn()
        assert dialer.transport(1).writes == []
        assert lane.outstanding == 0
    assert dialer.wids[:2] == told.ups
    assert len(set(told.ups)) == 2
    assert all(told.ups)


async def test_a_job_is_reserved_after_its_fetch_and_after_the_answer_before_it():
    dialer, told = FakeDialer(), Told()
    lane = FetchLane(dialer, told)
    async with running(lane):
        dialer.let_in()
        await eventually(lambda: told.ups)
        started_at = asyncio.get_running_loop().time()
        lane.fetch(b"FETCH a\r\n", started_at)
        lane.fetch(b"FETCH a\r\n", started_at)
        dialer.connections[0].data_received(b"$1\r\na\r\n")
        answered_at = dialer.connections[0].progress_at
        dialer.connections[0].data_received(b"$1\r\nb\r\n")
        sent_later = asyncio.get_running_loop().time() + 50
        lane.fetch(b"FETCH a\r\n", sent_later)
        dialer.connections[0].data_received(b"$1\r\nc\r\n")
    assert answered_at > started_at
    assert told.answers == [(b"a", started_at), (b"b", answered_at), (b"c", sent_later)]


async def test_a_new_connection_forgets_when_the_old_one_answered_last():
    dialer, told = FakeDialer(), Told()
    lane = FetchLane(dialer, told)
    async with running(lane):
        dialer.let_in()
        await eventually(lambda: told.ups)
        lane.fetch(b"FETCH a\r\n", 1.0)
        dialer.connections[0].data_received(b"$-1\r\n")
        dialer.connections[0].connection_lost(None)
        dialer.let_in()
        await eventually(lambda: len(told.ups) == 2)
        lane.fetch(b"FETCH a\r\n", 2.0)
        dialer.connections[1].data_received(b"$-1\r\n")
    assert told.answers == [(None, 1.0), (None, 2.0)]


async def test_a_fetch_lane_that_is_closed_tells_what_it_still_owed():
    dialer, told = FakeDialer(), Told()
    lane = FetchLane(dialer, told)
    async with running(lane):
        dialer.let_in()
        await eventually(lambda: told.ups)
        lane.fetch(b"FETCH a\r\n", 1.0)
        lane.close()
        assert told.downs == [(lane.wid, 1)]


def test_the_back_off_doubles_up_to_its_ceiling_with_jitter(monkeypatch):
    monkeypatch.setattr(backoff, "FIRST_DELAY_S", 0.1)
    state = backoff.Backoff()
    delays = [state.next_delay_s() for _ in range(2000)]
    ceilings = [min(backoff.LONGEST_DELAY_S, 0.1 * 2**n) for n in range(12)]
    assert all(
        ceiling / 2 <= delay <= ceiling for delay, ceiling in zip(delays, ceilings, strict=False)
    )
    assert len(set(delays[100:])) > 1
    assert max(delays) <= backoff.LONGEST_DELAY_S
    state.reset()
    assert state.next_delay_s() <= 0.1


async def test_who_was_on_our_broker_comes_back_before_it_hands_out_jobs_again():
    dialer = FakeDialer()
    lane = FetchLane(dialer, Told())
    assert lane._backoff.longest_s == backoff.LONGEST_DELAY_S
    async with running(lane):
        dialer.extensions = 1
        dialer.let_in()
        await eventually(lambda: lane.connection)
        assert lane._backoff.longest_s == backoff.LONGEST_DELAY_TO_BROKER_S
    assert backoff.LONGEST_DELAY_TO_BROKER_S < HOLD_AFTER_CRASH_S
