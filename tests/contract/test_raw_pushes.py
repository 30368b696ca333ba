"""PUSH and PUSHB as a stranger sends them: what is refused in which words, what is filled in."""

import json

import pytest

from manyhands.shared.jobs import new_jid
from tests.contract.conftest import Server
from tests.contract.raw import json_line, push_line, refusal
from tests.support.raw_client import RawClient


@pytest.mark.parametrize(
    "body",
    ["", "nonsense", "[]", "{", '{"a":1,}', '{"jid":12345678}', '{"jid":"12345678"} more'],
)
@pytest.mark.parametrize("verb", ["PUSH", "PUSHB"])
def test_what_is_no_job_is_called_invalid_json(server: Server, verb: str, body: str) -> None:
    if (verb, body) == ("PUSHB", "[]"):
        body = "{}"
    assert refusal(server, f"{verb} {body}").startswith("invalid JSON: ")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("jid", 12345678),
        ("retry", "many"),
        ("retry", 1.5),
        ("args", {}),
        ("args", "text"),
        ("custom", []),
        ("queue", 1),
    ],
)
def test_a_field_of_the_wrong_type_is_called_invalid_json(
    server: Server, field: str, value: object
) -> None:
    assert refusal(server, push_line(**{field: value})).startswith("invalid JSON: ")


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("jid", "", "jobs must have a reasonable jid parameter"),
        ("jid", "short", "jobs must have a reasonable jid parameter"),
        ("jid", None, "jobs must have a reasonable jid parameter"),
        ("jobtype", "", "jobs must have a jobtype parameter"),
        ("jobtype", None, "jobs must have a jobtype parameter"),
        ("args", None, "jobs must have an args parameter"),
        ("reserve_for", 86_401, "jobs cannot be reserved for more than one day"),
        ("queue", "two words", 'cannot get "two words" queue: queue names must match '),
        ("at", "tomorrow", "invalid timestamp for 'at': \"tomorrow\""),
    ],
)
def test_a_job_that_cannot_be_is_refused_with_the_reason(
    server: Server, field: str, value: object, reason: str
) -> None:
    assert refusal(server, push_line(**{field: value})).startswith(reason)


def test_an_empty_batch_is_taken(server: Server) -> None:
    with RawClient(server.url) as stranger:
        assert stranger.call("PUSHB []") == "{}"


def test_a_job_of_a_batch_without_a_jid_is_refused_under_an_empty_one(server: Server) -> None:
    with RawClient(server.url) as stranger:
        answer = stranger.call("PUSHB [{}]")
        assert answer and json.loads(answer) == {"": "jobs must have a reasonable jid parameter"}


@pytest.mark.parametrize("verb", ["PUSH", "PUSHB"])
def test_a_job_that_leaves_out_what_it_may_gets_the_usual(
    server: Server, queue: str, verb: str
) -> None:
    job = {"jid": new_jid(), "jobtype": "any", "args": [1], "queue": queue}
    with RawClient(server.url) as stranger:
        body = json.dumps(job if verb == "PUSH" else [job])
        assert stranger.call(f"{verb} {body}") in ("OK", "{}")
        fetched = json.loads(stranger.call(f"FETCH {queue}") or "null")
        stranger.call(json_line("ACK", jid=job["jid"]))
    assert fetched["retry"] == 25
    assert fetched["created_at"] and fetched["enqueued_at"]
    assert "reserve_for" not in fetched
    assert "custom" not in fetched
    assert "failure" not in fetched


def test_a_job_without_a_queue_goes_to_default_and_what_nobody_knows_is_dropped(
    server: Server,
) -> None:
    with RawClient(server.url) as stranger:
        assert stranger.call(push_line(nobody_knows=1)) == "OK"
        fetched = json.loads(stranger.call("FETCH default") or "null")
        stranger.call(json_line("ACK", jid=fetched["jid"]))
    assert fetched["queue"] == "default"
    assert "nobody_knows" not in fetched
