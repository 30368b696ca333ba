"""What single commands answer, where it is not the same as for a real Faktory's usual client."""

import json
import sqlite3

import pytest

from manyhands.broker import mutations
from manyhands.broker import registry as registry_module
from manyhands.broker import verbs as verbs_module
from manyhands.broker.batches import SET_NAMES
from manyhands.broker.reading import Reader
from tests.unit.broker.connections import Broker

OK = b"+OK\r\n"
NOTHING = b"$-1\r\n"


@pytest.fixture
async def broker(tmp_path):
    broker = Broker(tmp_path)
    yield broker
    await broker.close()


async def call(broker: Broker, *lines: bytes) -> bytes:
    client = broker.connect()
    client.send(b"".join(line + b"\r\n" for line in lines))
    await broker.answered(client)
    answer = client.read()
    client.send(b"END\r\n")
    return answer


def push(jid: str, **fields) -> bytes:
    return b"PUSH " + json.dumps({"jid": jid, "jobtype": "t", "args": []} | fields).encode()


def fail(jid: str) -> bytes:
    return b'FAIL {"jid":"%b","errtype":"E","message":"m"}' % jid.encode()


def sets(broker: Broker) -> dict[str, int]:
    return {name: broker.manager.store.counters[name] for name in SET_NAMES}


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (b"PUSH", b"-ERR internal error\r\n"),
        (b"PUSH ", b"-ERR invalid JSON: "),
        (b"PUSH []", b"-ERR invalid JSON: "),
        (b'PUSH {"jid":"12345678"}', b"-ERR jobs must have a jobtype parameter\r\n"),
        (b'PUSHB {"jid":"12345678"}', b"-ERR invalid JSON: "),
        (b"FETCH", b"-ERR must call fetch with at least one queue\r\n"),
        (b"FETCH a b/c", b'-ERR cannot get "b/c" queue: queue names must match'),
        (b"ACK {}", b"-ERR invalid ACK {}\r\n"),
        (b"ACK 12345678", b"-ERR invalid ACK 12345678\r\n"),
        (b'ACK {"jid":"12345678"}', OK),
        (b"FAIL {}", b"-ERR missing JID\r\n"),
        (b"FAIL nonsense", b"-ERR invalid FAIL nonsense\r\n"),
        (b'FAIL {"jid":"12345678"}', b"-ERR Job not found 12345678\r\n"),
        (b'BEAT {"wid":"nobody"}', b"-ERR unknown worker nobody\r\n"),
        (b'HELD {"wid":"","jids":[]}', b"-ERR HELD needs a worker id\r\n"),
        (b"QUEUE", b"-ERR internal error\r\n"),
        (b"QUEUE ", b"-ERR no such QUEUE subcommand: \r\n"),
        (b"QUEUE PAUSE", b"-ERR internal error\r\n"),
        (b"QUEUE LATENCY *", b"-ERR QUEUE LATENCY does not support wildcards\r\n"),
        (b"MUTATE", b"-ERR invalid format\r\n"),
        (b'MUTATE {"cmd": "clear"}', b"-ERR invalid format\r\n"),
        (b'MUTATE {"cmd":"eat"}', b"-ERR unknown mutate operation\r\n"),
        (b'MUTATE {"cmd":"kill","target":"all"}', b"-ERR invalid target for mutation command"),
        (b"TRACK GET x", b"-ERR tracking subsystem is only available in Faktory Enterprise\r\n"),
        (b"\xff", "-ERR unknown command \ufffd\r\n".encode()),
    ],
)
async def test_what_cannot_be_done_is_said_in_one_line(broker, line, answer):
    said = await call(broker, line)
    assert said.startswith(answer)
    assert said.count(b"\r\n") == 1


@pytest.mark.parametrize("where", [b'"args":["%b"]', b'"args":[],"custom":{"x":"%b"}'])
async def test_a_job_that_is_not_utf_8_is_refused_and_others_are_stored(broker, where):
    start = b'PUSH {"jid":"12345678","jobtype":"t","at":"2100-01-01T00:00:00Z",'
    answer = await call(broker, start + where % b"\xff" + b"}", push("job-0001"))
    assert answer.startswith(b"-ERR invalid JSON: 'utf-8' codec")
    assert answer.endswith(OK)
    assert await call(broker, start + where % "ü".encode() + b"}") == OK
    assert sets(broker)["scheduled"] == 1


async def test_a_job_that_is_nested_too_deeply_is_refused(broker):
    args = b"[" * 5000 + b"]" * 5000
    answer = await call(broker, b'PUSH {"jid":"12345678","jobtype":"t","args":%b}' % args)
    assert answer.startswith(b"-ERR invalid JSON: maximum recursion depth")


async def test_of_many_jobs_those_that_are_refused_are_named(broker):
    jobs = b'[{"jid":"12345678","jobtype":"t","args":[]},{"jid":"23456789","jobtype":"t"},{}]'
    answer = await call(broker, b"PUSHB " + jobs)
    assert json.loads(answer.split(b"\r\n")[1]) == {
        "23456789": "jobs must have an args parameter",
        "": "jobs must have a reasonable jid parameter",
    }
    assert broker.manager.queues.by_name["default"].size == 1


async def test_a_full_disk_is_said_to_those_who_push(broker):
    pages = broker.store._writer.execute("PRAGMA page_count").fetchone()[0]
    broker.store._writer.execute(f"PRAGMA max_page_count = {pages}")
    large = {"custom": {"x": "x" * 60_000}}
    assert await call(broker, push("job-0001", **large)) == (
        b"-ERR the disk is full: the job was not stored\r\n"
    )
    assert await call(broker, push("job-0002")) == b"-ERR the disk is full: no job was stored\r\n"
    broker.store._writer.execute("PRAGMA max_page_count = 100000")
    broker.store.look_after_space()
    assert await call(broker, push("job-0001", **large)) == OK
    assert broker.manager.queues.by_name["default"].size == 1


# Sets


async def a_dead_job(broker: Broker, jid: str, **fields) -> None:
    await call(broker, push(jid, retry=-1, **fields), b"FETCH default")
    assert await call(broker, fail(jid)) == OK


async def test_a_failure_comes_before_the_command_that_follows_it(broker):
    await call(broker, push("job-0001", retry=5), b"FETCH default")
    kill = b'MUTATE {"cmd":"kill","target":"retries","filter":{"jids":["job-0001"]}}'
    assert await call(broker, fail("job-0001"), kill) == OK + OK
    assert sets(broker) == {"scheduled": 0, "retries": 0, "dead": 1}


async def test_to_kill_the_dead_comes_to_an_end(broker, monkeypatch):
    for number in range(3):
        await a_dead_job(broker, f"job-000{number}")
    # Page by page, and each is committed before the next is read.
    monkeypatch.setattr(mutations, "MOVED_AT_ONCE", 1)
    monkeypatch.setattr(mutations, "FOUND_AT_ONCE", 2)
    assert await call(broker, b'MUTATE {"cmd":"kill","target":"dead"}') == OK
    assert sets(broker)["dead"] == 3
    monkeypatch.undo()


@pytest.mark.parametrize(
    ("chosen", "left"),
    [
        (b'{"jids":["job-0001","job-none"]}', 2),
        (b'{"jobtype":"other"}', 2),
        (b'{"regexp":"*red*"}', 2),
        (b'{"regexp":"*red\\\\[x]*"}', 2),
        (b'{"regexp":"*job-000?*","jobtype":"t"}', 1),
        (b'{"regexp":"*RED*"}', 3),
        (b'{"jids":["job-0001"],"jobtype":"other"}', 2),
    ],
)
async def test_a_filter_chooses_jobs_of_a_set(broker, chosen, left):
    later = {"at": "2100-01-01T00:00:00Z"}
    await call(broker, push("job-0001", **later), push("job-0002", jobtype="other", **later))
    await call(broker, push("job-0003", custom={"tenant": "red[x]"}, **later))
    line = b'MUTATE {"cmd":"discard","target":"scheduled","filter":%b}' % chosen
    assert await call(broker, line) == OK
    assert sets(broker)["scheduled"] == left


@pytest.mark.parametrize("how", [b'"cmd":"clear"', b'"cmd":"discard"'])
async def test_a_job_of_a_cleared_set_can_be_pushed_again(broker, how):
    later = push("job-0001", at="2100-01-01T00:00:00Z")
    assert await call(broker, later, b'MUTATE {%b,"target":"scheduled"}' % how) == OK + OK
    assert sets(broker)["scheduled"] == 0
    assert await call(broker, later, later) == OK + OK
    assert sets(broker)["scheduled"] == 1


# Queues


async def test_the_latency_of_a_queue_is_the_age_of_its_oldest_job(broker):
    await call(broker, push("job-0001"))
    answer = await call(broker, b"QUEUE LATENCY default none")
    latencies = json.loads(answer.split(b"\r\n")[1])
    assert latencies.keys() == {"default", "none"}
    assert latencies["default"] > 0 == latencies["none"]


async def test_an_asterisk_means_all_queues_that_were_pushed_to(broker):
    await call(broker, push("job-0001", queue="a"), push("job-0002", queue="b"))
    await call(broker, b"FETCH other", b"QUEUE PAUSE *")
    paused = {queue.name: queue.is_paused for queue in broker.manager.queues.by_name.values()}
    assert paused == {"a": True, "b": True, "other": False}
    assert await call(broker, b"FETCH a b") == b"$-1\r\n"


async def test_a_queue_that_a_fetch_named_and_nobody_uses_is_forgotten(broker):
    await call(broker, push("job-0001", queue="a"), b"FETCH b")
    broker.manager.forget_unused_queues()
    assert list(broker.manager.queues.by_name) == ["a"]
    client = broker.connect()
    client.send(b"FETCH b\r\n")
    broker.manager.forget_unused_queues()
    await call(broker, push("job-0002", queue="b"))
    assert b"job-0002" in client.read()


async def test_what_is_removed_together_leaves_what_is_between_and_what_is_in_hand(broker):
    names = [b"a", b"b", b"c", b"d"]
    for name in names:
        for number in (1, 2):
            await call(broker, push(f"job-of-{name.decode()}{number}", queue=name.decode()))
    await call(broker, b"FETCH a", b"FETCH c")
    assert await call(broker, b"QUEUE REMOVE a b d d none") == OK
    rows = broker.store.reader._connection.execute("SELECT payload FROM jobs ORDER BY key")
    assert [json.loads(row[0])["jid"] for row in rows] == ["job-of-a1", "job-of-c1", "job-of-c2"]
    counts = dict(broker.store._writer.execute("SELECT name, rows FROM queues"))
    assert counts == {"a": 1, "b": 0, "c": 2, "d": 0}
    assert await call(broker, push("job-of-d1", queue="d"), b"FETCH a b d") != NOTHING
    assert await call(broker, fail("job-of-a1"), fail("job-of-c1")) == OK + OK


async def test_empty_queues_are_forgotten_when_there_are_many(broker, monkeypatch):
    monkeypatch.setattr(registry_module, "KEPT_EMPTY_QUEUES", 3)
    for number in range(6):
        await call(broker, push(f"job-000{number}", queue=f"q{number}"))
    for number in (0, 1, 2, 3):
        await call(broker, b"FETCH q%d" % number)
    # The first is in hand, and the fourth is awaited.
    for number in (1, 2, 3):
        await call(broker, b'ACK {"jid":"job-000%d"}' % number)
    waiting = broker.connect()
    waiting.send(b"FETCH q3\r\n")
    broker.manager.forget_unused_queues()
    await broker.committed()
    assert list(broker.manager.queues.by_name) == ["q0", "q3", "q4", "q5"]
    stored = broker.store._writer.execute("SELECT name FROM queues ORDER BY id").fetchall()
    assert [name for (name,) in stored] == ["q0", "q3", "q4", "q5"]
    await call(broker, push("job-0007", queue="q1"))
    assert b"job-0007" in await call(broker, b"FETCH q1")


async def test_a_fetch_behind_another_gets_the_job_of_a_queue_that_was_forgotten(broker):
    client = broker.connect()
    client.send(b"FETCH a\r\nFETCH b\r\n")
    broker.manager.forget_unused_queues()
    assert list(broker.manager.queues.by_name) == ["a"]
    await call(broker, push("job-of-b", queue="b"), push("job-of-a", queue="a"))
    answer = client.read()
    assert b"job-of-a" in answer and b"job-of-b" in answer


async def test_new_queues_are_refused_when_there_are_too_many(broker):
    broker.store.memory.max_unused_queues = 2
    assert await call(broker, b"FETCH a b") == NOTHING
    assert b"-ERR there are too many queues (2)" in await call(broker, b"FETCH c")
    assert await call(broker, push("job-0001", queue="c")) == OK
    broker.store.memory.max_queues = 3
    answer = await call(broker, push("job-0002", queue="d"))
    assert answer.startswith(b"-ERR there are too many queues (3)")
    broker.manager.forget_unused_queues()
    assert await call(broker, push("job-0002", queue="d")) == OK


async def test_info_of_very_many_queues_is_made_once_a_second(broker, monkeypatch):
    monkeypatch.setattr(verbs_module, "MANY_QUEUES", 1)
    await call(broker, push("job-0001", queue="a"), push("job-0002", queue="b"))
    assert broker.verbs.state()["faktory"]["total_enqueued"] == 2
    await call(broker, push("job-0003", queue="a"))
    assert broker.verbs.state()["faktory"]["total_enqueued"] == 2
    broker.verbs._queues_shown_until = 0.0
    assert broker.verbs.state()["faktory"]["total_enqueued"] == 3


async def test_info_names_the_queues_that_are_paused(broker):
    await call(broker, push("job-0001", queue="a"), push("job-0002", queue="b"), b"QUEUE PAUSE b")
    assert broker.verbs.state()["faktory"]["paused"] == ["b"]
    await call(broker, b"QUEUE RESUME *")
    assert broker.verbs.state()["faktory"]["paused"] == []


# Bounds


@pytest.mark.parametrize("length", [256, 257, 60_000])
@pytest.mark.parametrize("later", [{}, {"at": "2100-01-01T00:00:00Z"}])
async def test_a_queue_name_has_256_characters_at_most(broker, length, later):
    name = "q" * length
    for line in (b"FETCH " + name.encode(), push("job-0001", queue=name, **later)):
        answer = await call(broker, line)
        assert answer.startswith(b"-ERR cannot get") == (length > 256)
        assert len(answer) < 300


@pytest.mark.parametrize("verb", [b"FETCH", b"ACK", b"FAIL", b"BEAT", b"QUEUE", b"MUTATE", b"HELD"])
async def test_only_a_push_may_have_the_length_of_a_line(broker, monkeypatch, verb):
    monkeypatch.setattr(verbs_module, "MAX_FETCH_BYTES", 100)
    monkeypatch.setattr(verbs_module, "MAX_COMMAND_BYTES", 200)
    answer = await call(broker, verb + b" " + b"x" * 201)
    limit = 100 if verb == b"FETCH" else 200
    assert answer == b"-ERR a %b of more than %d bytes\r\n" % (verb, limit)
    assert await call(broker, push("job-0001", custom={"x": "x" * 300})) == OK


async def test_too_many_jobs_in_one_push_are_refused_before_they_are_read(broker, monkeypatch):
    monkeypatch.setattr(verbs_module, "COUNTED_PUSH_BYTES", 100)
    monkeypatch.setattr(verbs_module, "MAX_PUSHED_OBJECTS", 100)
    assert (await call(broker, b"PUSHB [" + b"{}," * 100 + b"{}]")).startswith(
        b"-ERR more than 100"
    )
    assert (await call(broker, b"PUSHB [" + b"{}," * 99 + b"{}]")).startswith(b"$")


async def test_what_is_not_utf_8_is_found_wherever_it_is_cut(broker, monkeypatch):
    monkeypatch.setattr(verbs_module, "UTF8_PIECE", 3)
    assert await call(broker, push("job-0001", custom={"x": "€ü𝄞" * 5})) == OK
    line = push("job-0002", custom={"x": "y"}).replace(b'"y"', b'"\xe2\x82"')
    assert (await call(broker, line)).startswith(b"-ERR invalid JSON")


async def test_fetch_lines_are_remembered_when_they_are_short(broker):
    long = b" ".join(b"queue-%d" % number for number in range(1000))
    await call(broker, b"FETCH short", b"FETCH " + long)
    assert list(broker.verbs._fetch_lines) == [b"short"]


# MUTATE says what it did


@pytest.mark.parametrize("pattern", ["*" * 1025, "\\x" * 400, "é" * 600])
async def test_a_pattern_that_is_too_complex_is_refused(broker, pattern):
    await call(broker, push("job-0001", at="2100-01-01T00:00:00Z"))
    chosen = json.dumps({"regexp": pattern}).encode()
    line = b'MUTATE {"cmd":"discard","target":"scheduled","filter":%b}'
    answer = await call(broker, line % chosen.replace(b" ", b""))
    assert answer == b"-ERR the pattern is too complex: it may have 1024 bytes at most\r\n"
    assert sets(broker)["scheduled"] == 1


async def test_a_mutation_that_fails_is_not_answered_with_ok(broker, monkeypatch):
    await call(broker, push("job-0001", at="2100-01-01T00:00:00Z"))

    def find_ids(*_, **__):
        raise sqlite3.OperationalError("the disk caught fire")

    monkeypatch.setattr(Reader, "find_ids", find_ids)
    line = b'MUTATE {"cmd":"kill","target":"scheduled","filter":{"jobtype":"t"}}'
    answer = await call(broker, line, b'BEAT {"wid":"nobody"}')
    assert answer.startswith(b"-ERR MUTATE failed, perhaps half-way: the disk caught fire\r\n")
    assert answer.endswith(b"-ERR unknown worker nobody\r\n")
