"""After a kill -9 of the broker: what it remembers, and what its clients tell it, step by step."""

import json
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from devservers import BrokerServer
from manyhands.shared.jobs import new_jid
from tests.support.broker_state import BrokerState
from tests.support.raw_client import RawClient
from tests.support.waiting import eventually


@pytest.fixture
def broker() -> Iterator[BrokerServer]:
    with BrokerServer() as server:
        yield server


def push(raw: RawClient, queue: str, count: int) -> list[str]:
    jids = [new_jid() for _ in range(count)]
    jobs = [{"jid": jid, "jobtype": "any", "args": [], "queue": queue} for jid in jids]
    assert raw.call("PUSHB " + json.dumps(jobs)) == "{}"
    return jids


def fetch(raw: RawClient, queue: str) -> str | None:
    answer = raw.call(f"FETCH {queue}")
    return json.loads(answer)["jid"] if answer else None


def crash(server: BrokerServer) -> None:
    server.kill()
    server.start()


async def hold_is_over(raw: RawClient, queue: str) -> None:
    """After a crash nobody gets a job for some seconds; this job of another queue tells."""
    push(raw, f"{queue}-canary", 1)
    await eventually(lambda: fetch(raw, f"{queue}-canary"))


def test_answered_pushes_and_acks_outlive_a_crash(broker: BrokerServer, queue: str) -> None:
    with RawClient(broker.url) as raw:
        jids = push(raw, queue, 10)
        assert [fetch(raw, queue) for _ in range(4)] == jids[:4]
        for jid in jids[:4]:
            assert raw.call("ACK " + json.dumps({"jid": jid})) == "OK"
    crash(broker)
    with RawClient(broker.url) as raw:
        info = raw.info()["faktory"]
        assert info["queues"][queue] == 6
        assert info["total_processed"] == 4


async def test_nobody_gets_a_job_right_after_a_crash_and_in_their_order_later(
    broker: BrokerServer, queue: str
) -> None:
    """Those who did some of them get the time to say so first."""
    with RawClient(broker.url) as raw:
        jids = push(raw, queue, 3)
        assert fetch(raw, queue) == jids[0]
    crash(broker)
    with RawClient(broker.url) as raw, RawClient(broker.url) as other:
        # The broker is in no hurry with this answer: it waits for the FETCH before it.
        raw.send(f"FETCH {queue}", "ACK " + json.dumps({"jid": jids[0]}))

        def info_after_the_ack() -> dict[str, Any]:
            info: dict[str, Any] = other.info()["faktory"]
            return info if info["total_processed"] == 1 else {}

        info = await eventually(info_after_the_ack)
        assert (info["queues"][queue], info["sets"]["working"]) == (2, 0)
        early = raw.answer()
        assert raw.answer() == "OK"
        # Nothing, unless the time was over before it had waited for as long as a FETCH does.
        found = [json.loads(early)["jid"]] if early else []
        while len(found) < 2:
            found.append(await eventually(lambda: fetch(raw, queue)))
        assert found == jids[1:]
        assert fetch(raw, queue) is None


@pytest.mark.parametrize("verb", ["ACK", "FAIL", "HELD"])
async def test_a_result_that_comes_late_after_a_crash_still_counts(
    broker: BrokerServer, queue: str, verb: str
) -> None:
    """The job was in hand for less than a second: the broker has forgotten whose it was."""
    with RawClient(broker.url) as raw:
        jids = push(raw, queue, 3)
        assert fetch(raw, queue) == jids[0]
    crash(broker)
    with RawClient(broker.url) as raw:
        await hold_is_over(raw, queue)
        line = {"wid": secrets.token_hex(8), "jids": [jids[0]]} if verb == "HELD" else {}
        assert raw.call(f"{verb} " + json.dumps(line or {"jid": jids[0]})) == "OK"
        assert [fetch(raw, queue) for _ in range(3)] == [jids[1], jids[2], None]


@pytest.mark.timeout(90)
async def test_a_job_in_hand_for_longer_stays_in_hand_through_a_crash(
    broker: BrokerServer, queue: str
) -> None:
    with RawClient(broker.url, wid=secrets.token_hex(8)) as worker:
        jids = push(worker, queue, 2)
        assert fetch(worker, queue) == jids[0]
        # The next full second after the first writes down whose it is; then others can see it.
        await eventually(lambda: BrokerState(broker).stored_reservations == 1)
    crash(broker)
    with RawClient(broker.url) as raw:
        await hold_is_over(raw, queue)
        assert raw.info()["faktory"]["sets"]["working"] >= 1
        assert fetch(raw, queue) == jids[1]
        # Its worker does not come back: others get it.
        assert await eventually(lambda: fetch(raw, queue), 40) == jids[0]
