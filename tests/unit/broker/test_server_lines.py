"""A connection: lines in, answers out, in their order and within bounds."""

import asyncio
import hashlib
import itertools
import json
import re
from types import SimpleNamespace

import pytest

from manyhands.broker import answers as answers_module
from manyhands.broker import handout as handout_module
from manyhands.broker import store as store_module
from manyhands.broker import turns as turns_module
from manyhands.broker.handout import FETCH_BLOCKS_S
from manyhands.broker.server import MAX_HELLO_BYTES
from manyhands.shared.faktory.handshake import password_hash
from tests.unit.broker.connections import MAX_LINE, Broker, Client

OK = b"+OK\r\n"
NOTHING = b"$-1\r\n"


@pytest.fixture
async def broker(tmp_path):
    broker = Broker(tmp_path)
    yield broker
    await broker.close()


def job(jid: str, queue: str = "default", **fields) -> bytes:
    return json.dumps({"jid": jid, "jobtype": "any", "args": [], "queue": queue} | fields).encode()


def push(*arguments: str, **fields) -> bytes:
    return b"PUSH " + job(*arguments, **fields) + b"\r\n"


def ack(jid: str) -> bytes:
    return b'ACK {"jid":"%b"}\r\n' % jid.encode()


def jids(answer: bytes) -> list[str]:
    return re.findall(r'"jid":"([^"]+)"', answer.decode())


async def pushed(broker: Broker, *lines: bytes) -> None:
    producer = broker.connect()
    producer.send(b"".join(lines))
    await broker.committed()
    assert producer.read() == OK * len(lines)


# Coming in


@pytest.mark.parametrize(
    "line",
    [b"", b"INFO", b"PUSH {}", b"HELLO", b"HELLO 5", b"HELLO {", b'HELLO {"v":"x"}', b"\xff\x00"],
)
async def test_before_hello_nothing_else_is_heard(broker, line):
    client = Client(broker.server)
    assert client.read() == b'+HI {"v":2,"mh":1}\r\n'
    client.send(line + b'\r\nHELLO {"v":2}\r\nFLUSH\r\n')
    assert client.is_closed
    assert client.read() == b""
    assert broker.verbs.connections == broker.verbs.commands == 0


async def test_a_hello_that_is_nested_too_deeply_closes(broker):
    client = Client(broker.server)
    client.send(b'HELLO {"x":' + b"[" * 4000 + b"\r\n")
    assert client.is_closed


async def test_an_endless_hello_is_cut_short(broker):
    client = Client(broker.server)
    client.send(b"HELLO {" + b" " * MAX_HELLO_BYTES)
    assert client.is_closed


@pytest.mark.parametrize(
    ("version", "password", "is_right"),
    [(2, "secret", True), (1, "secret", True), (2, "Secret", False), (1, "", False)],
)
async def test_only_the_password_lets_in(tmp_path, version, password, is_right):
    broker = Broker(tmp_path, password="secret")
    client = Client(broker.server)
    greeting = json.loads(client.read().removeprefix(b"+HI "))
    given = (
        password_hash(password, greeting["s"], greeting["i"])
        if version == 2
        else hashlib.sha256((password + greeting["s"]).encode()).hexdigest()
    )
    hello = {"v": version, "pwdhash": given}
    client.send(b"HELLO " + json.dumps(hello).encode() + b"\r\nFLUSH\r\n")
    if is_right:
        assert client.read() == OK
    else:
        assert client.read() == b"-ERR Invalid password\r\n"
        assert client.is_closed
        assert broker.verbs.commands == 0
    await broker.close()


async def test_without_a_hash_no_password_is_right(tmp_path):
    broker = Broker(tmp_path, password="secret")
    client = Client(broker.server)
    client.read()
    client.send(b'HELLO {"v":2}\r\n')
    assert client.read() == b"-ERR Invalid password\r\n"
    await broker.close()


# The order of answers


async def test_answers_come_in_the_order_of_their_commands(broker):
    client, other = broker.connect(b'{"v":2,"wid":"w"}'), broker.connect()
    client.send(b"FETCH empty\r\n" + push("job-0001") + b'BEAT {"wid":"w"}\r\nNONSENSE\r\n')
    client.send(ack("unknown1") + ack("unknown2") + b"FETCH default\r\nFETCH default\r\n")
    await broker.committed()
    assert client.read() == b""
    other.send(push("job-0002", "empty"))
    await broker.committed()
    answer = client.read()
    assert jids(answer) == ["job-0002", "job-0001"]
    assert answer.count(b"\r\n") == 2 + 1 + 1 + 1 + 2 + 2
    middle = answer[answer.index(b"\r\n+OK") + 2 :]
    assert middle.startswith(OK + OK + b"-ERR unknown command NONSENSE\r\n" + OK + OK + b"$")


async def test_an_answer_that_is_ready_waits_for_a_commit_before_it(broker):
    client = broker.connect(b'{"v":2,"wid":"w"}')
    client.send(push("job-0001") + b'BEAT {"wid":"w"}\r\n')
    assert client.read() == b""
    await broker.committed()
    assert client.read() == OK + OK


async def test_pipelined_fetches_take_jobs_in_their_order_and_end_in_time(broker):
    client, other = broker.connect(), broker.connect()
    client.send(b"FETCH a\r\nFETCH b a\r\nFETCH a\r\n")
    other.send(push("job-of-b", "b"))
    await broker.committed()
    assert client.read() == b""
    other.send(push("job-of-a", "a"))
    await broker.committed()
    assert jids(client.read()) == ["job-of-a", "job-of-b"]
    broker.pass_time(FETCH_BLOCKS_S - 0.01)
    assert client.read() == b""
    broker.pass_time(0.01)
    assert client.read() == NOTHING


async def test_a_fetch_behind_one_that_waits_keeps_no_job_from_others(broker):
    await pushed(broker, push("job-of-b", "b"))
    client, other = broker.connect(), broker.connect()
    client.send(b"FETCH a\r\nFETCH b\r\n")
    other.send(b"FETCH b\r\n")
    assert jids(other.read()) == ["job-of-b"]


async def test_the_one_that_has_waited_longest_is_served_first(broker):
    clients = [broker.connect() for _ in range(3)]
    for client in clients:
        client.send(b"FETCH default\r\n")
    await pushed(broker, push("job-0001"), push("job-0002"))
    assert [jids(client.read()) for client in clients] == [["job-0001"], ["job-0002"], []]


async def test_a_line_may_come_in_any_pieces(broker):
    lines = b'HELLO {"v":2}\r\n' + push("job-0001", custom={"a": "ü"})
    lines += b"FETCH default nothing\r\n" + ack("job-0001") + b"NONSENSE\n"
    expected = OK + OK + b"$-1\r\n" + OK + b"-ERR unknown command NONSENSE\r\n"
    pieces = [[lines[:at], lines[at:]] for at in range(1, len(lines))]
    pieces.append([bytes([byte]) for byte in lines])
    for parts in pieces:
        client = Client(broker.server)
        client.read()
        for part in parts:
            client.send(part)
        await broker.answered(client)
        answer = client.read()
        assert jids(answer) in (["job-0001"], [])
        assert re.sub(rb"\$\d+\r\n\{.*\}\r\n", NOTHING, answer) == expected
        client.send(b"FLUSH\r\nEND\r\n")
        await broker.committed()


# Bounds


@pytest.mark.parametrize("start", [b"PUSH ", b"FETCH ", b'ACK {"jid":'])
@pytest.mark.parametrize("end", [b"", b"\r\nFLUSH\r\n"])
async def test_a_line_that_is_too_long_is_refused_and_the_connection_closed(broker, start, end):
    client = broker.connect()
    client.send(start + b"x" * MAX_LINE)
    client.send(end)
    assert client.read() == b"-ERR a line of more than %d bytes\r\n" % MAX_LINE
    assert client.is_closed
    assert broker.verbs.commands == 0


async def test_a_line_that_just_fits_is_run(broker):
    client = broker.connect()
    bare = job("job-0001", custom={"x": ""})
    fill = "x" * (MAX_LINE - len(b"PUSH ") - len(bare))
    client.send(push("job-0001", custom={"x": fill}))
    await broker.committed()
    assert client.read() == OK


async def test_one_who_does_not_read_is_not_served_and_gets_everything_later(broker):
    client = broker.connect()
    client.connection.pause_writing()
    assert client.transport.is_paused
    client.send(push("job-0001") + b"NONSENSE\r\nFETCH default\r\n" + ack("job-0001"))
    await broker.committed()
    assert client.read() == b""
    assert broker.manager.queues.by_name == {}
    client.connection.resume_writing()
    assert not client.transport.is_paused
    await broker.answered(client)
    answer = client.read()
    assert answer.startswith(OK + b"-ERR unknown command NONSENSE\r\n")
    assert answer.endswith(OK)


async def test_a_job_passes_by_one_who_does_not_read_until_he_reads(broker):
    slow, quick = broker.connect(), broker.connect()
    slow.send(b"FETCH default\r\n")
    slow.connection.pause_writing()
    quick.send(b"FETCH default\r\n")
    await pushed(broker, push("job-0001"), push("job-0002"))
    assert (jids(slow.read()), jids(quick.read())) == ([], ["job-0001"])
    slow.connection.resume_writing()
    assert jids(slow.read()) == ["job-0002"]


async def test_one_who_asks_without_end_is_not_read_until_he_is_answered(broker, monkeypatch):
    monkeypatch.setattr(turns_module, "MAX_UNANSWERED", 3)
    client = broker.connect()
    client.send(b"FETCH default\r\n" * 10)
    assert client.transport.is_paused
    for number in range(12):
        await pushed(broker, push(f"job-{number:04}"))
    assert len(jids(client.read())) == 10
    assert not client.transport.is_paused


@pytest.mark.parametrize(
    "line",
    [
        b"FLUSH\r\n",
        push("job-0001") + b"FLUSH\r\n",
        *(b"QUEUE REMOVE default\r\n", b"QUEUE REMOVE *\r\n", b"QUEUE PAUSE *\r\n"),
        b'MUTATE {"cmd":"clear","target":"dead"}\r\n',
        b'MUTATE {"cmd":"discard","target":"dead","filter":{"jobtype":"t"}}\r\n',
    ],
)
async def test_who_clears_the_store_over_and_over_keeps_nobody_waiting_but_himself(broker, line):
    stranger, other = broker.connect(), broker.connect()
    before = broker.store.commits
    stranger.send(line * 100)
    other.send(push("job-0002"))
    await broker.committed()
    assert other.read() == OK
    assert broker.store.commits - before <= 3
    await broker.answered(stranger)
    assert stranger.read() == OK * 100 * line.count(b"\n")


async def test_one_who_pushes_faster_than_is_stored_is_not_read_until_it_is(broker, monkeypatch):
    monkeypatch.setattr(store_module, "UNWRITTEN_BYTES", 100)
    client = broker.connect()
    client.send(b"".join(push(f"job-{number:04}") for number in range(5)))
    assert client.transport.is_paused
    await broker.answered(client)
    assert client.read() == OK * 5
    assert not client.transport.is_paused
    assert broker.manager.queues.by_name["default"].size == 5


# Quiet, and the end


async def test_a_worker_that_says_quiet_has_its_fetches_answered_at_once(broker):
    client, other = broker.connect(b'{"v":2,"wid":"w"}'), broker.connect()
    client.send(b"FETCH default\r\n" * 3)
    other.send(b'BEAT {"wid":"w","current_state":"quiet"}\r\n')
    assert other.read() == b'$17\r\n{"state":"quiet"}\r\n'
    assert client.read() == NOTHING * 3
    await pushed(broker, push("job-0001"))
    client.send(b"FETCH default\r\n")
    assert client.read() == b""
    broker.pass_time(FETCH_BLOCKS_S)
    assert client.read() == NOTHING
    assert broker.manager.reservations.in_hand == {}


async def test_after_end_nothing_more_is_run(broker):
    client = broker.connect()
    client.send(push("job-0001") + b"END\r\n" + push("job-0002") + b"FETCH default\r\n")
    client.send(push("job-0003"))
    await broker.committed()
    assert client.is_closed
    assert broker.manager.queues.by_name["default"].size == 1
    assert broker.manager.reservations.in_hand == {}


async def test_a_fetch_of_a_broken_connection_takes_no_job(broker):
    client = broker.connect(b'{"v":2,"wid":"w"}')
    client.send(b"FETCH default\r\nFETCH default\r\n" + push("job-0001", "other"))
    client.transport.abort()
    await pushed(broker, push("job-0002"))
    assert broker.manager.reservations.in_hand == {}
    assert broker.manager.queues.by_name["default"].size == 1
    assert broker.clients.workers == {}


async def test_what_a_broken_connection_did_not_get_is_given_to_another(broker):
    lost, other = (broker.connect(b'{"v":2,"wid":"%b"}' % wid) for wid in (b"w1", b"w2"))
    await pushed(broker, push("job-0001"), push("job-0002"), push("job-0003"))
    lost.send(b"FETCH default\r\n" * 3)
    other.send(b'HELD {"wid":"w1","jids":["job-0002"]}\r\nFETCH default\r\nFETCH default\r\n')
    await broker.committed()
    assert lost.is_closed
    assert jids(other.read()) == ["job-0001", "job-0003"]
    assert set(broker.manager.reservations.in_hand) == {"job-0001", "job-0002", "job-0003"}


async def test_a_client_that_reads_nothing_and_goes_away_leaves_no_trace(broker):
    client = broker.connect()
    client.connection.pause_writing()
    client.send(b"INFO\r\n" * 100)
    assert client.transport.is_paused
    client.transport.abort()
    client.connection.resume_writing()
    assert client.read() == b""


async def test_who_sends_thousands_of_lines_does_not_keep_others_from_their_turn(
    broker, monkeypatch
):
    many, one = broker.connect(), broker.connect()
    moments = itertools.count(broker.now, turns_module.TURN_S / 5)
    clock = SimpleNamespace(time=lambda: broker.now, monotonic=lambda: next(moments))
    monkeypatch.setattr(turns_module, "time", clock)
    many.send(b"NONSENSE\r\n" * 1000)
    assert many.transport.is_paused
    assert many.transport.written.count(b"\r\n") < 20
    one.send(b"NONSENSE\r\n")
    assert one.read().startswith(b"-ERR")
    assert many.transport.written.count(b"\r\n") < 20
    for _ in range(1000):
        await asyncio.sleep(0)
    assert many.read().count(b"\r\n") == 1000
    assert not many.transport.is_paused


# The budget of memory


async def test_the_connection_that_holds_the_most_is_told_so_and_closed(broker):
    broker.store.memory.limit = 100_000
    small, large = broker.connect(), broker.connect()
    small.send(b"PUSH " + b"x" * 50_000)
    large.send(b"PUSH " + b"x" * 60_000)
    assert large.read().startswith(b"-ERR clients make the broker hold too many bytes")
    assert large.is_closed and not small.is_closed
    small.send(b"\r\n")
    assert small.read().startswith(b"-ERR invalid JSON")
    await broker.committed()
    assert broker.store.memory.connections == 0


async def test_one_who_does_not_read_what_he_is_sent_is_counted_and_closed(broker):
    broker.store.memory.limit = 100_000
    client, other = broker.connect(), broker.connect()
    await pushed(broker, push("job-0001", custom={"x": "x" * 50_000}))
    client.transport.unread = 60_000
    client.send(b"FETCH default\r\n")
    assert broker.store.memory.connections == 60_000
    other.send(b"PUSH " + b"x" * 45_000)
    assert client.is_closed and not other.is_closed


async def test_a_large_job_goes_out_again_although_it_was_not_kept(broker):
    lost, other = (broker.connect(b'{"v":2,"wid":"%b"}' % wid) for wid in (b"w1", b"w2"))
    await pushed(broker, push("job-0001", custom={"x": "x" * 5000}))
    lost.send(b"FETCH default\r\n")
    first = lost.read()
    assert broker.manager.reservations.in_hand["job-0001"].payload == b""
    other.send(b'HELD {"wid":"w1","jids":[]}\r\n')
    await broker.committed()
    assert broker.store.memory.heads < 5000
    other.read()
    other.send(b"FETCH default\r\n")
    assert other.read() == first
    other.send(b'FAIL {"jid":"job-0001"}\r\n')
    await broker.committed()
    (row,) = broker.store.reader.read_set("retries", limit=9)
    assert b"x" * 5000 in row.payload


async def test_jobs_behind_an_answer_that_waits_are_not_taken_without_end(broker, monkeypatch):
    monkeypatch.setattr(answers_module, "WRITE_BUFFER_BYTES", 10_000)
    for number in range(10):
        await pushed(broker, push(f"job-000{number}", custom={"x": "x" * 5000}))
    client = broker.connect()
    client.send(push("job-of-another", "another") + b"FETCH default\r\n" * 10)
    assert len(broker.manager.reservations.in_hand) < 4
    await broker.answered(client)
    assert len(jids(client.read())) == 10


async def test_a_large_job_waits_until_there_is_room_for_it(broker, monkeypatch):
    monkeypatch.setattr(handout_module, "LARGE_BYTES", 1000)
    client = broker.connect()
    await pushed(broker, push("job-0001", custom={"x": "x" * 60_000}), push("job-0002"))
    memory = broker.store.memory
    memory.connections += memory.limit
    client.send(b"FETCH default\r\n")
    assert client.read() == b""
    assert broker.manager.queues.by_name["default"].size == 2
    memory.connections -= memory.limit
    broker.manager.handout.look_for_room()
    assert jids(client.read()) == ["job-0001"]


async def test_a_large_push_waits_for_the_store_and_a_small_one_does_not(broker, monkeypatch):
    monkeypatch.setattr(store_module, "UNWRITTEN_BYTES", 100)
    first, large, small = broker.connect(), broker.connect(), broker.connect()
    first.send(push("job-0001", custom={"x": "x" * 200}))
    large.send(push("job-0002", custom={"x": "x" * 5000}))
    small.send(push("job-0003"))
    assert large.transport.is_paused
    assert broker.store.memory.connections > 5000
    assert "job-0002" not in broker.manager._known and "job-0003" in broker.manager._known
    for client in (first, small, large):
        await broker.answered(client)
    await broker.committed()
    assert [client.read() for client in (first, large, small)] == [OK] * 3
    assert not large.transport.is_paused
    assert broker.store.memory.unwritten == 0


async def test_who_is_closed_amid_his_fetches_gets_no_further_job(broker):
    client = broker.connect()
    for number in range(5):
        await pushed(broker, push(f"job-{number:04}", args=["x" * 10_000]))
    client.send(b"FETCH other default\r\n")
    client.read()
    broker.store.memory.limit = 100_000
    client.transport.unread = 200_000
    client.send(b"FETCH other default\r\n" * 4)
    assert client.is_closed
    assert list(broker.manager.reservations.in_hand) == ["job-0000", "job-0001"]
    assert broker.manager.queues.by_name["default"].size == 3


async def test_equal_fetches_in_a_row_are_answered_as_if_they_came_one_by_one(broker):
    client = broker.connect()
    for number in range(3):
        await pushed(broker, push(f"job-{number:04}"))
    client.send(b"FETCH default\r\n" * 5 + b"FETCH bad/name\r\n" * 2 + b"NONSENSE\r\n")
    assert jids(client.read()) == ["job-0000", "job-0001", "job-0002"]
    broker.pass_time(FETCH_BLOCKS_S)
    answers = client.read()
    assert answers.startswith(2 * NOTHING + b"-ERR cannot get")
    assert answers.count(b"-ERR cannot get") == 2
    assert answers.endswith(b"-ERR unknown command NONSENSE\r\n")
    assert broker.verbs.commands == 3 + 5 + 2
