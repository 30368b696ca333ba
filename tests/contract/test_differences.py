"""What our broker does with jobs otherwise than Faktory, on purpose; each beside what a real one
does. Connections and workers are in test_differences_of_workers.py."""

import json
from datetime import timedelta
from typing import Any

import pytest

from devservers import BrokerServer, FaktoryServer
from manyhands.shared.jobs import new_jid, rfc3339, utc_now
from tests.contract.raw import ack, fetch, job, push, queued
from tests.support.raw_client import RawClient, RawConnection

BIG = 2**60 + 1


def test_the_broker_says_in_its_greeting_that_it_is_ours(
    faktory_process: FaktoryServer, broker_process: BrokerServer
) -> None:
    with RawConnection(faktory_process.url) as theirs, RawConnection(broker_process.url) as ours:
        assert "mh" not in theirs.greeting
        assert ours.greeting["mh"] == 1


def test_faktory_changes_large_integers(faktory_raw: RawClient, queue: str) -> None:
    push(faktory_raw, job(queue, args=[BIG], custom={"big": BIG}))
    fetched = fetch(faktory_raw, queue)
    assert fetched["args"] != [BIG]
    assert fetched["custom"]["big"] != BIG


def test_the_broker_keeps_every_digit_of_every_number(broker_raw: RawClient, queue: str) -> None:
    text = f'[{BIG},{10**40},0.1000,1e400,-0,"\\u00e4"]'
    line = f'PUSH {{"jid":"{new_jid()}","jobtype":"any","queue":"{queue}","args":{text}}}'
    assert broker_raw.call(line) == "OK"
    assert f'"args":{text}' in (broker_raw.call(f"FETCH {queue}") or "")


def test_a_push_with_retry_changes_the_default_of_faktory(
    faktory_raw: RawClient, queue: str
) -> None:
    push(faktory_raw, job(f"{queue}-other", retry=3))
    push(faktory_raw, job(queue))
    assert fetch(faktory_raw, queue)["retry"] == 3
    push(faktory_raw, job(f"{queue}-other", retry=25))  # as it was


def test_a_push_with_retry_concerns_nobody_else_at_the_broker(
    broker_raw: RawClient, queue: str
) -> None:
    push(broker_raw, job(f"{queue}-other", retry=3))
    push(broker_raw, job(queue))
    assert fetch(broker_raw, queue)["retry"] == 25


def push_again(raw: RawClient, queue: str) -> int:
    """Push one job four times, in each of the ways; how many are queued."""
    once = job(queue)
    assert push(raw, once) == "OK"
    assert push(raw, once) == "OK"
    assert raw.call("PUSHB " + json.dumps([once, once])) == "{}"
    return queued(raw, queue)


def test_faktory_queues_a_repeated_push_again(faktory_raw: RawClient, queue: str) -> None:
    assert push_again(faktory_raw, queue) == 4


def test_the_broker_queues_a_repeated_push_once(broker_raw: RawClient, queue: str) -> None:
    assert push_again(broker_raw, queue) == 1


def test_a_push_that_is_repeated_while_its_job_is_in_hand_or_scheduled_is_not_queued(
    broker_raw: RawClient, queue: str
) -> None:
    in_hand = job(queue)
    later = job(queue, at=rfc3339(utc_now() + timedelta(hours=1)))
    push(broker_raw, in_hand)
    push(broker_raw, later)
    assert fetch(broker_raw, queue)["jid"] == in_hand["jid"]
    for again in (in_hand, later):
        assert push(broker_raw, again) == "OK"
    assert queued(broker_raw, queue) == 0
    assert broker_raw.info()["faktory"]["sets"]["scheduled"] == 1


def test_a_jid_may_be_used_again_once_its_job_is_done(broker_raw: RawClient, queue: str) -> None:
    again = job(queue)
    for _ in range(2):
        push(broker_raw, again)
        assert fetch(broker_raw, queue)["jid"] == again["jid"]
        assert ack(broker_raw, again["jid"]) == "OK"


def scheduled_with_an_illegal_name() -> dict[str, Any]:
    return job("two words", at=rfc3339(utc_now() + timedelta(hours=1)))


def test_faktory_takes_a_scheduled_job_for_a_queue_that_cannot_be(faktory_raw: RawClient) -> None:
    assert push(faktory_raw, scheduled_with_an_illegal_name()) == "OK"
    assert faktory_raw.call('MUTATE {"cmd":"clear","target":"scheduled"}') == "OK"


def test_the_broker_refuses_a_scheduled_job_for_a_queue_that_cannot_be(
    broker_raw: RawClient,
) -> None:
    answer = push(broker_raw, scheduled_with_an_illegal_name())
    assert answer and answer.startswith('-ERR cannot get "two words" queue')


def test_faktory_waits_for_a_queue_that_cannot_be(faktory_raw: RawClient) -> None:
    assert faktory_raw.call("FETCH a/b") is None


def test_the_broker_refuses_to_wait_for_a_queue_that_cannot_be(broker_raw: RawClient) -> None:
    answer = broker_raw.call("FETCH a/b")
    assert answer and answer.startswith('-ERR cannot get "a/b" queue')


EXPIRES = [rfc3339(utc_now() - timedelta(seconds=1)), utc_now().timestamp() - 1]


@pytest.mark.parametrize("moment", EXPIRES, ids=["text", "number"])
def test_faktory_delivers_a_job_that_is_too_late(
    faktory_raw: RawClient, queue: str, moment: object
) -> None:
    push(faktory_raw, job(queue, custom={"expires_at": moment}))
    assert fetch(faktory_raw, queue)


@pytest.mark.parametrize("moment", EXPIRES, ids=["text", "number"])
def test_the_broker_drops_a_job_that_is_too_late(
    broker_raw: RawClient, queue: str, moment: object
) -> None:
    future = rfc3339(utc_now() + timedelta(hours=1))
    late = job(queue, custom={"expires_at": moment})
    in_time = job(queue, custom={"expires_at": future})
    unreadable = job(queue, custom={"expires_at": "soon"})
    for each in (late, in_time, unreadable):
        push(broker_raw, each)
    fetched = [fetch(broker_raw, queue)["jid"] for _ in range(2)]
    assert fetched == [in_time["jid"], unreadable["jid"]]
    assert queued(broker_raw, queue) == 0
