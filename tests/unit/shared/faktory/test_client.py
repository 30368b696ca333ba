"""The verbs, against a server that follows a script."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
import pytest

from manyhands.shared.errors import (
    ConnectFailed,
    ConnectionLost,
    InvalidJob,
    ProtocolError,
    ServerError,
)
from manyhands.shared.faktory import backoff
from manyhands.shared.faktory.client import Client, JobFilter, MutateTarget, parse_beat_answer
from manyhands.shared.faktory.codec import Reply
from manyhands.shared.jobs import Job
from tests.support.scripted_server import (
    GREETING,
    OK,
    Close,
    Expect,
    Say,
    ScriptedServer,
    Silence,
    Step,
    bulk,
    eventually,
)

BIG = 2**53 + 1


@pytest.fixture(autouse=True)
def reconnect_at_once(monkeypatch):
    monkeypatch.setattr(backoff, "FIRST_DELAY_S", 0.0)


@asynccontextmanager
async def connected(*steps: Step) -> AsyncIterator[tuple[Client, ScriptedServer]]:
    """A client whose commands meet these steps; its first connection only looks who is there."""
    async with (
        ScriptedServer(GREETING, (*GREETING, *steps)) as server,
        Client(server.address()) as client,
    ):
        yield client, server


def some_job(jid: str = "job-00000001", **fields) -> Job:
    return Job(jobtype="add", args=[1, 2], jid=jid, **fields)


def commands(server: ScriptedServer) -> list[bytes]:
    """What came after the handshake, on all connections."""
    return [line for lines in server.lines for line in lines[1:]]


async def test_a_push_is_a_batch_of_one_that_names_every_field():
    async with connected(Expect(b"PUSHB ["), bulk(b"{}")) as (client, server):
        assert await client.push(some_job(retry=3)) == "job-00000001"
        (line,) = commands(server)
    (sent,) = orjson.loads(line.removeprefix(b"PUSHB "))
    assert sent["jid"] == "job-00000001"
    assert (sent["retry"], sent["queue"], sent["args"]) == (3, "default", [1, 2])


async def test_a_push_that_the_server_refuses_raises_its_reason():
    answer = bulk(b'{"job-00000001":"Jobs must have a jobtype"}')
    async with connected(Expect(b"PUSHB"), answer) as (client, _):
        with pytest.raises(ServerError, match="must have a jobtype"):
            await client.push(some_job())


async def test_the_failures_of_a_batch_are_told_by_jid():
    async with connected(Expect(b"PUSHB"), bulk(b'{"job-00000002":"no"}')) as (client, _):
        failures = await client.push_bulk([some_job(), some_job("job-00000002")])
    assert failures == {"job-00000002": "no"}


async def test_an_empty_batch_sends_nothing():
    async with connected() as (client, server):
        assert await client.push_bulk([]) == {}
        assert commands(server) == []


async def test_a_thousand_jobs_are_a_batch_and_one_more_is_refused():
    jobs = [some_job(f"job-{number:08}") for number in range(1001)]
    async with connected(Expect(b"PUSHB"), bulk(b"{}")) as (client, server):
        with pytest.raises(InvalidJob, match="1001"):
            await client.push_bulk(jobs)
        assert commands(server) == []
        assert await client.push_bulk(jobs[:1000]) == {}
        assert len(orjson.loads(commands(server)[0].removeprefix(b"PUSHB "))) == 1000


async def test_a_jid_that_is_twice_in_a_batch_is_refused_before_anything_is_sent():
    async with connected() as (client, server):
        with pytest.raises(InvalidJob, match="job-00000001"):
            await client.push_bulk([some_job(), some_job()])
        assert commands(server) == []


async def test_big_integers_are_refused_by_default():
    async with connected() as (client, server):
        with pytest.raises(InvalidJob, match="2\\^53"):
            await client.push(Job(jobtype="add", args=[BIG]))
        assert commands(server) == []


async def test_big_integers_are_sent_to_a_server_that_keeps_them():
    greeting = (Say(b'+HI {"v":2,"mh":1}\r\n'), Expect(b"HELLO"), OK)
    script = (*greeting, Expect(b"PUSHB"), bulk(b"{}"))
    async with (
        ScriptedServer(greeting, script) as server,
        Client(server.address()) as client,
    ):
        await client.push(Job(jobtype="add", args=[BIG]))
        assert str(BIG).encode() in commands(server)[0]


async def test_an_answer_that_is_no_map_is_a_protocol_error():
    async with connected(Expect(b"PUSHB"), OK) as (client, _):
        with pytest.raises(ProtocolError):
            await client.push(some_job())


async def test_an_error_answer_is_raised_with_its_code():
    async with connected(Expect(b"ACK"), Say(b"-ERR invalid ACK\r\n")) as (client, _):
        with pytest.raises(ServerError) as refused:
            await client.ack("12345678")
    assert (refused.value.code, refused.value.text) == ("ERR", "invalid ACK")


async def test_an_ack_wants_ok():
    async with connected(Expect(b"ACK"), Say(b"+SURE\r\n")) as (client, _):
        with pytest.raises(ProtocolError):
            await client.ack("12345678")


async def test_a_call_that_times_out_closes_its_connection_and_no_later_answer_shifts():
    late = asyncio.Event()
    first = (*GREETING, Expect(b"INFO"), Silence(late), Say(b"+TOO LATE\r\n"))
    second = (*GREETING, Expect(b"FLUSH"), OK)
    async with (
        ScriptedServer(GREETING, first, second) as server,
        Client(server.address()) as client,
    ):
        with pytest.raises(ConnectionLost, match=str(server.port)):
            await client.call(b"INFO\r\n", timeout_s=0.02)
        late.set()
        await client.flush()
        assert len(server.lines) == 3


async def test_a_cancelled_call_propagates_and_its_late_answer_goes_to_nobody():
    late = asyncio.Event()
    answers = (Say(b"+TOO LATE\r\n"), Expect(b"FLUSH"), OK)
    first = (*GREETING, Expect(b"INFO"), Silence(late), *answers)
    async with (
        ScriptedServer(GREETING, first, (*GREETING, Expect(b"FLUSH"), OK)) as server,
        Client(server.address()) as client,
    ):
        call = asyncio.create_task(client.info())
        await eventually(lambda: commands(server))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        flushing = asyncio.create_task(client.flush())
        await asyncio.sleep(0)
        late.set()
        await flushing
        assert commands(server) == [b"INFO\r\n", b"FLUSH\r\n"]


async def test_a_call_that_is_cancelled_before_it_was_sent_is_never_sent():
    reconnect = asyncio.Event()
    second = (Silence(reconnect), *GREETING, Expect(b"FLUSH"), OK)
    async with (
        ScriptedServer(GREETING, (*GREETING, Expect(b"ACK"), Close()), second) as server,
        Client(server.address()) as client,
    ):
        with pytest.raises(ConnectionLost):
            await client.ack("12345678")
        call = asyncio.create_task(client.info())
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        reconnect.set()
        await client.flush()
        assert commands(server)[1:] == [b"FLUSH\r\n"]


async def test_a_call_is_not_repeated_when_its_connection_is_lost():
    first = (*GREETING, Expect(b"PUSHB"), Close())
    async with (
        ScriptedServer(GREETING, first, GREETING) as server,
        Client(server.address()) as client,
    ):
        with pytest.raises(ConnectionLost):
            await client.push(some_job())
        await eventually(lambda: len(server.lines) == 3 and server.lines[2])
        assert len(commands(server)) == 1


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (OK, None),
        (bulk(b'{"state":"quiet"}'), "quiet"),
        (Say(b'+{"state":"terminate"}\r\n'), "terminate"),
        (bulk(b'{"state":""}'), None),
        (bulk(b"{}"), None),
    ],
)
async def test_a_beat_tells_the_state_that_the_server_wants(answer, state):
    async with connected(Expect(b"BEAT"), answer) as (client, server):
        assert await client.beat("w1", state="running", rss_kb=12) == state
        assert commands(server) == [b'BEAT {"wid":"w1","rss_kb":12,"current_state":"running"}\r\n']


@pytest.mark.parametrize("reply", [None, 7, "nonsense", b"[]", b"7", b""])
def test_an_unreadable_answer_to_beat_is_a_protocol_error(reply: Reply):
    with pytest.raises(ProtocolError):
        parse_beat_answer(reply)


async def test_a_beat_of_a_forgotten_worker_raises():
    answer = Say(b"-ERR unknown worker w1\r\n")
    async with connected(Expect(b"BEAT"), answer) as (client, _):
        with pytest.raises(ServerError, match="unknown worker"):
            await client.beat("w1")


async def test_info_is_read():
    async with connected(Expect(b"INFO"), bulk(b'{"server":{"connections":3}}')) as (client, _):
        assert (await client.info())["server"]["connections"] == 3


async def test_the_queue_verbs_are_sent_as_asked():
    steps = [step for _ in range(3) for step in (Expect(b"QUEUE"), OK)]
    async with connected(*steps) as (client, server):
        await client.queue_pause(["a", "b"])
        await client.queue_resume(["*"])
        await client.queue_remove(["c"])
        assert commands(server) == [
            b"QUEUE PAUSE a b\r\n",
            b"QUEUE RESUME *\r\n",
            b"QUEUE REMOVE c\r\n",
        ]


async def test_latencies_are_read_as_seconds():
    async with connected(Expect(b"QUEUE"), bulk(b'{"a":1.5,"b":0}')) as (client, server):
        assert await client.queue_latency(["a", "b"]) == {"a": 1.5, "b": 0.0}
        assert commands(server) == [b"QUEUE LATENCY a b\r\n"]


@pytest.mark.parametrize("names", [[], ["a b"], ["a", "b\r\nFLUSH"], [""], ["*", "a"], ["ä"]])
async def test_an_illegal_queue_name_is_refused_before_anything_is_sent(names):
    async with connected() as (client, server):
        for verb in (client.queue_pause, client.queue_resume, client.queue_remove):
            with pytest.raises(InvalidJob):
                await verb(names)
        with pytest.raises(InvalidJob):
            await client.queue_latency(names)
        with pytest.raises(InvalidJob):
            await client.fetch(names)
        assert commands(server) == []


async def test_latency_and_fetch_know_no_wildcard():
    async with connected() as (client, server):
        with pytest.raises(InvalidJob):
            await client.queue_latency(["*"])
        with pytest.raises(InvalidJob):
            await client.fetch(["*"])
        assert commands(server) == []


async def test_the_mutate_verbs_are_sent_as_asked():
    steps = [step for _ in range(4) for step in (Expect(b"MUTATE"), OK)]
    async with connected(*steps) as (client, server):
        await client.clear(MutateTarget.DEAD)
        await client.kill(MutateTarget.RETRIES, JobFilter(jids=["a", "b"]))
        await client.discard(MutateTarget.SCHEDULED, JobFilter(jobtype="add"))
        await client.requeue(MutateTarget.DEAD, JobFilter(pattern="*x y*"))
        sent = [orjson.loads(line.removeprefix(b"MUTATE ")) for line in commands(server)]
    assert sent == [
        {"cmd": "clear", "target": "dead"},
        {"cmd": "kill", "target": "retries", "filter": {"jids": ["a", "b"]}},
        {"cmd": "discard", "target": "scheduled", "filter": {"jobtype": "add"}},
        {"cmd": "requeue", "target": "dead", "filter": {"regexp": "*x y*"}},
    ]


async def test_an_empty_filter_is_refused_before_anything_is_sent():
    async with connected() as (client, server):
        for verb in (client.kill, client.discard, client.requeue):
            with pytest.raises(InvalidJob, match="empty filter"):
                await verb(MutateTarget.DEAD, JobFilter())
        assert commands(server) == []


async def test_a_fail_is_sent_with_its_reason():
    async with connected(Expect(b"FAIL"), OK) as (client, server):
        await client.fail("12345678", "ValueError", "no", ["line"])
        (line,) = commands(server)
    assert orjson.loads(line.removeprefix(b"FAIL ")) == {
        "jid": "12345678",
        "errtype": "ValueError",
        "message": "no",
        "backtrace": ["line"],
    }


async def test_a_fetch_has_a_socket_of_its_own():
    fetching = (*GREETING, Expect(b"FETCH"), bulk(b'{"jid":"12345678"}'), Expect(b"FETCH"))
    async with (
        ScriptedServer(GREETING, GREETING, (*fetching, Say(b"$-1\r\n"))) as server,
        Client(server.address()) as client,
    ):
        assert await client.fetch(["a", "b"]) == {"jid": "12345678"}
        assert await client.fetch(["a"]) is None
        assert [len(lines) for lines in server.lines] == [1, 1, 3]
        assert server.lines[2][1:] == [b"FETCH a b\r\n", b"FETCH a\r\n"]


async def test_a_client_that_cannot_connect_says_so_at_once():
    async with ScriptedServer((Say(b"HTTP/1.1 200 OK\r\n"),)) as server:
        with pytest.raises(ConnectFailed):
            async with Client(server.address()):
                pytest.fail("there is no Faktory server here")


async def test_leaving_the_client_closes_its_connections():
    async with ScriptedServer(GREETING) as server:
        async with Client(server.address(), connections=3):
            await eventually(lambda: len(server.lines) == 4)
        await eventually(lambda: server.closed_by_client == 4)
