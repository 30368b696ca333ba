"""What our broker does with connections and workers otherwise than Faktory, on purpose; each beside
what a real one does."""

import json
import resource
import secrets

import pytest

from devservers import BrokerServer, FaktoryServer
from manyhands.shared.jobs import new_jid
from tests.contract.conftest import Server
from tests.contract.raw import ack, fetch, job, push, queued, working
from tests.support.many_connections import connections, many_connections
from tests.support.raw_client import RawClient
from tests.support.waiting import eventually, stays

# What a real Faktory takes from everybody together, and what is usual for a process.
FAKTORY_CONNECTIONS = 2000
USUAL_OPEN_FILES = 1024
OUTSTANDING = 20


def leave_with_fetches_outstanding(server: Server, queue: str) -> None:
    with RawClient(server.url, wid=secrets.token_hex(8)) as leaving:
        leaving.send(*[f"FETCH {queue}"] * OUTSTANDING)


async def test_faktory_gives_jobs_to_connections_that_are_gone(
    faktory_process: FaktoryServer, faktory_raw: RawClient, queue: str
) -> None:
    leave_with_fetches_outstanding(faktory_process, queue)
    for _ in range(OUTSTANDING):
        push(faktory_raw, job(queue))
    await eventually(lambda: working(faktory_raw) > 1)


async def test_the_broker_gives_no_job_to_a_connection_that_is_gone(
    broker_process: BrokerServer, broker_raw: RawClient, queue: str
) -> None:
    leave_with_fetches_outstanding(broker_process, queue)
    await eventually(lambda: connections(broker_raw) == 1)
    for _ in range(OUTSTANDING):
        push(broker_raw, job(queue))
    await stays(lambda: (working(broker_raw), queued(broker_raw, queue)) == (0, OUTSTANDING), 2.5)


def fetch_and_ack_behind_a_fetch(raw: RawClient, worker: RawClient, queue: str) -> None:
    pushed = job(queue)
    push(raw, pushed)
    assert fetch(worker, queue)
    worker.send(f"FETCH {queue}-empty", "ACK " + json.dumps({"jid": pushed["jid"]}))


async def test_an_ack_behind_a_fetch_has_to_wait_at_faktory(
    faktory_process: FaktoryServer, faktory_raw: RawClient, queue: str
) -> None:
    with RawClient(faktory_process.url, wid=secrets.token_hex(8)) as worker:
        fetch_and_ack_behind_a_fetch(faktory_raw, worker, queue)
        await stays(lambda: working(faktory_raw) == 1, 0.5)
        assert worker.answer() is None
        assert worker.answer() == "OK"
        assert working(faktory_raw) == 0


async def test_an_ack_behind_a_fetch_is_carried_out_at_once_by_the_broker(
    broker_process: BrokerServer, broker_raw: RawClient, queue: str
) -> None:
    with RawClient(broker_process.url, wid=secrets.token_hex(8)) as worker:
        fetch_and_ack_behind_a_fetch(broker_raw, worker, queue)
        await eventually(lambda: working(broker_raw) == 0)
        # Its answer keeps its place: this job comes by the FETCH in front of it.
        late = job(f"{queue}-empty")
        push(broker_raw, late)
        assert json.loads(worker.answer() or "null")["jid"] == late["jid"]
        assert worker.answer() == "OK"


def quiet(raw: RawClient, wid: str) -> None:
    answer = raw.call("BEAT " + json.dumps({"wid": wid, "current_state": "quiet"}))
    assert answer == '{"state":"quiet"}'


def test_a_quieted_worker_of_faktory_waits_for_each_of_its_fetches(
    faktory_process: FaktoryServer, faktory_raw: RawClient, queue: str
) -> None:
    wid = secrets.token_hex(8)
    with RawClient(faktory_process.url, wid=wid) as worker:
        worker.send(*[f"FETCH {queue}"] * OUTSTANDING)
        quiet(faktory_raw, wid)
        worker.set_timeout(5.0)
        answered = 0
        with pytest.raises(TimeoutError):
            while answered < OUTSTANDING:
                assert worker.answer() is None
                answered += 1
                worker.set_timeout(1.0)  # the next one takes two seconds
        assert answered < OUTSTANDING


# One after the other the answers would take 40 s.
@pytest.mark.timeout(30)
def test_a_quieted_worker_of_the_broker_has_all_its_answers_at_once(
    broker_process: BrokerServer, broker_raw: RawClient, queue: str
) -> None:
    wid = secrets.token_hex(8)
    with RawClient(broker_process.url, wid=wid) as worker:
        worker.send(*[f"FETCH {queue}"] * OUTSTANDING)
        quiet(broker_raw, wid)
        assert [worker.answer() for _ in range(OUTSTANDING)] == [None] * OUTSTANDING
        push(broker_raw, job(queue))
        assert worker.call(f"FETCH {queue}") is None
        assert queued(broker_raw, queue) == 1


# One after the other they would wait for 40 s.
@pytest.mark.timeout(30)
def test_fetches_of_one_connection_wait_together_at_the_broker(
    broker_process: BrokerServer, queue: str
) -> None:
    with RawClient(broker_process.url) as worker:
        worker.send(*[f"FETCH {queue}"] * OUTSTANDING)
        assert [worker.answer() for _ in range(OUTSTANDING)] == [None] * OUTSTANDING


@pytest.mark.timeout(120)
def test_faktory_refuses_more_than_two_thousand_connections() -> None:
    # One of its own: FETCHes of other tests keep connections open.
    with (
        FaktoryServer() as faktory,
        many_connections(faktory, FAKTORY_CONNECTIONS),
        RawClient(faktory.url) as one_more,
    ):
        assert (one_more.answer() or "").startswith("-ERR too many connections")


@pytest.mark.timeout(120)
def test_the_broker_takes_more_connections_than_faktory_and_than_a_process_usually_may(
    queue: str,
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(USUAL_OPEN_FILES, hard), hard))
    try:
        with BrokerServer() as broker:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            with many_connections(broker, FAKTORY_CONNECTIONS + 500) as held:
                assert push(held[-1], job(queue)) == "OK"
                assert fetch(held[FAKTORY_CONNECTIONS], queue)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# Workers that went away


async def test_faktory_keeps_the_jobs_of_a_worker_that_went_away(
    faktory_process: FaktoryServer, faktory_raw: RawClient, queue: str
) -> None:
    push(faktory_raw, job(queue))
    with RawClient(faktory_process.url, wid=secrets.token_hex(8)) as worker:
        assert fetch(worker, queue)
    for _ in range(3):
        assert fetch(faktory_raw, queue) is None
    assert working(faktory_raw) == 1


async def test_the_broker_gives_the_jobs_of_a_worker_that_went_away_to_others_in_their_order(
    broker_process: BrokerServer, broker_raw: RawClient, queue: str
) -> None:
    jids = [new_jid() for _ in range(5)]
    for jid in jids:
        push(broker_raw, job(queue, jid=jid))
    with RawClient(broker_process.url, wid=secrets.token_hex(8)) as worker:
        assert [fetch(worker, queue)["jid"] for _ in range(3)] == jids[:3]
    await eventually(lambda: queued(broker_raw, queue) == 5)
    assert [fetch(broker_raw, queue)["jid"] for _ in range(5)] == jids


async def test_the_broker_keeps_the_jobs_of_a_client_that_is_no_worker(
    broker_process: BrokerServer, broker_raw: RawClient, queue: str
) -> None:
    """As Faktory does: it may be a script that fetches on one connection and ends on another."""
    wire = job(queue)
    push(broker_raw, wire)
    with RawClient(broker_process.url) as script:
        assert fetch(script, queue)
    await stays(lambda: working(broker_raw) == 1, 6.0)
    assert ack(broker_raw, wire["jid"]) == "OK"
    assert working(broker_raw) == 0


def test_faktory_knows_no_held(faktory_raw: RawClient) -> None:
    assert faktory_raw.call('HELD {"wid":"any","jids":[]}') == "-ERR unknown command HELD"


async def test_held_gives_back_what_the_client_does_not_have(
    broker_process: BrokerServer, broker_raw: RawClient, queue: str
) -> None:
    """For a connection that broke with answers on their way: nobody else knows which arrived."""
    jids = [new_jid() for _ in range(3)]
    for jid in jids:
        push(broker_raw, job(queue, jid=jid))
    wid = secrets.token_hex(8)
    with RawClient(broker_process.url, wid=wid) as broken:
        for _ in jids:
            assert fetch(broken, queue)
        held = {"wid": wid, "jids": [jids[1], "not-at-all-known"]}
        assert broker_raw.call("HELD " + json.dumps(held)) == "OK"
        assert broken.is_closed_by_server()
    assert (working(broker_raw), queued(broker_raw, queue)) == (1, 2)
    assert [fetch(broker_raw, queue)["jid"] for _ in range(2)] == [jids[0], jids[2]]
    assert fetch(broker_raw, queue) is None


@pytest.mark.parametrize(
    "body", ["", "{}", "[]", '{"wid":""}', '{"wid":"","jids":[]}', '{"wid":1}']
)
def test_held_must_name_a_worker_and_its_jobs(broker_raw: RawClient, body: str) -> None:
    answer = broker_raw.call(f"HELD {body}")
    assert answer and answer.startswith("-ERR ")
