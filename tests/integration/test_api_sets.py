"""Queues and sets over HTTP, on both servers; what a real Faktory cannot tell a program is a 501
that says where a person can look."""

import json
from typing import Any

import httpx
import pytest

from devservers import BrokerServer, FaktoryServer
from tests.conftest import ON_BOTH_SERVERS, AnyServer
from tests.support.raw_client import RawClient
from tests.support.waiting import eventually
from tests.support.worker_process import AnyState

pytestmark = ON_BOTH_SERVERS

FUTURE = "2099-01-01T00:00:00Z"


@pytest.fixture
def raw(server: AnyServer) -> Any:
    with RawClient(server.url, wid="raw-worker-0001") as raw:
        yield raw


def post(http: httpx.Client, queue: str, **options: str) -> str:
    """Queue a job; its jid."""
    response = http.post("/jobs/add", params={"queue": queue} | options, json={"a": 1, "b": 2})
    assert response.status_code == 202, response.text
    jid: str = response.json()["jid"]
    return jid


def put_into(http: httpx.Client, raw: RawClient, name: str, queue: str) -> str:
    """One job in the set; its jid."""
    if name == "scheduled":
        return post(http, queue, at=FUTURE)
    jid = post(http, queue, retry="-1" if name == "dead" else "5")
    assert raw.call(f"FETCH {queue}")
    assert raw.call("FAIL " + json.dumps({"jid": jid, "message": "on purpose"})) == "OK"
    return jid


def jids(jobs: list[dict[str, Any]]) -> list[str]:
    return [job["jid"] for job in jobs]


# Queues


def listed(http: httpx.Client, queue: str) -> dict[str, Any]:
    """As it was a second ago at most; empty if it was not there then."""
    found: list[dict[str, Any]] = http.get("/queues").json()
    return next((entry for entry in found if entry["name"] == queue), {})


def is_done(http: httpx.Client, queue: str, action: str) -> bool:
    return http.post(f"/queues/{queue}/{action}").status_code == 204


async def test_queues_are_listed_with_their_size_and_age(http: httpx.Client, queue: str) -> None:
    for _ in range(3):
        post(http, queue)
    await eventually(lambda: listed(http, queue).get("size") == 3)
    assert 0 <= listed(http, queue)["latency_s"] < 30


async def test_a_paused_queue_hands_out_nothing_until_it_is_resumed_and_says_so(
    http: httpx.Client, raw: RawClient, queue: str, server: AnyServer
) -> None:
    async def is_shown(paused: bool) -> None:
        shown = {"paused": paused if isinstance(server, BrokerServer) else None}
        await eventually(lambda: shown.items() <= listed(http, queue).items())

    jid = post(http, queue)
    assert is_done(http, queue, "pause")
    await is_shown(True)
    assert raw.call(f"FETCH {queue}") is None
    assert is_done(http, queue, "resume")
    await is_shown(False)
    job = raw.call(f"FETCH {queue}")
    assert job is not None and json.loads(job)["jid"] == jid


def test_a_cleared_queue_is_empty(http: httpx.Client, state: AnyState, queue: str) -> None:
    other = f"{queue}-other"
    post(http, queue)
    kept = post(http, other)
    response = http.post(f"/queues/{queue}/clear")
    assert (response.status_code, response.content) == (204, b"")
    assert state.queue(queue) == []
    assert jids(state.queue(other)) == [kept]


@pytest.mark.parametrize("path", ["/queues/a%20b/pause", "/queues/*/clear", "/queues/a%0A/clear"])
def test_a_queue_name_that_is_none_is_refused(http: httpx.Client, path: str) -> None:
    response = http.post(path)
    assert (response.status_code, response.json()["field"]) == (422, "path.name")


def test_an_action_that_is_none_is_refused(http: httpx.Client) -> None:
    assert http.post("/queues/default/explode").status_code == 422
    assert http.get("/queues/default/pause").status_code == 405


# Sets


@pytest.mark.parametrize("name", ["scheduled", "retries", "dead"])
@pytest.mark.parametrize("by", ["jids", "jobtype", "all"])
def test_jobs_of_a_set_are_requeued(
    http: httpx.Client, raw: RawClient, state: AnyState, queue: str, name: str, by: str
) -> None:
    jid = put_into(http, raw, name, queue)
    assert jids(getattr(state, name)) == [jid]
    which = {"jids": {"jids": [jid]}, "jobtype": {"jobtype": "add"}, "all": {"all": True}}[by]
    response = http.post(f"/sets/{name}/requeue", json=which)
    assert response.status_code == 204, response.text
    assert getattr(state, name) == []
    assert jids(state.queue(queue)) == [jid]


@pytest.mark.parametrize("name", ["scheduled", "retries"])
def test_jobs_of_a_set_are_killed(
    http: httpx.Client, raw: RawClient, state: AnyState, queue: str, name: str
) -> None:
    jid = put_into(http, raw, name, queue)
    assert http.post(f"/sets/{name}/kill", json={"jids": [jid]}).status_code == 204
    assert getattr(state, name) == []
    assert jids(state.dead) == [jid]


@pytest.mark.parametrize("name", ["scheduled", "retries", "dead"])
@pytest.mark.parametrize("by", ["jids", "all"])
def test_jobs_of_a_set_are_discarded(
    http: httpx.Client, raw: RawClient, state: AnyState, queue: str, name: str, by: str
) -> None:
    jid = put_into(http, raw, name, queue)
    kept = put_into(http, raw, name, queue) if by == "jids" else None
    which = {"jids": [jid]} if by == "jids" else {"all": True}
    assert http.post(f"/sets/{name}/discard", json=which).status_code == 204
    assert jids(getattr(state, name)) == ([kept] if kept else [])
    assert state.queue(queue) == []


def test_a_job_with_a_space_in_its_name_is_found(
    http: httpx.Client, raw: RawClient, state: AnyState, queue: str
) -> None:
    job = {"jid": "0123456789", "jobtype": "big job", "args": [], "queue": queue, "at": FUTURE}
    assert raw.call("PUSHB " + json.dumps([job])) == "{}"
    assert http.post("/sets/scheduled/discard", json={"jobtype": "big job"}).status_code == 204
    assert state.scheduled == []


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        (b"", 400, None),
        (b"{", 400, None),
        (b"{}", 422, "body"),
        (b'{"all": false}', 422, "body.all"),
        (b'{"all": null}', 422, "body"),
        (b'{"all": true, "jids": ["0123456789"]}', 422, "body"),
        (b'{"jids": []}', 422, "body.jids"),
        (b'{"jids": "0123456789"}', 422, "body.jids"),
        (b'{"jids": [1]}', 422, "body.jids.0"),
        (b'{"jid": "0123456789"}', 422, "body.jid"),
        (b'{"jobtype": "\\ud800"}', 400, None),
        (b'{"\\ud800": 1}', 400, None),
        (b"[" * 100_000, 400, None),
        (b'{"jids": ["' + b"x" * 2_000_000 + b'"]}', 413, None),
    ],
)
def test_who_does_not_say_which_jobs_changes_none(
    http: httpx.Client, state: AnyState, body: bytes, status: int, field: str | None
) -> None:
    jid = post(http, "default", at=FUTURE)
    # As curl sends it.
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    response = http.post("/sets/scheduled/discard", content=body, headers=headers)
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json().get("field") == field
    assert jids(state.scheduled) == [jid]


@pytest.mark.parametrize("path", ["/sets/living/kill", "/sets/dead/explode"])
def test_a_set_or_an_action_that_is_none_is_refused(http: httpx.Client, path: str) -> None:
    assert http.post(path, json={"all": True}).status_code == 422


def test_a_set_is_listed_page_by_page_or_a_person_is_told_where_to_look(
    http: httpx.Client, server: AnyServer, queue: str
) -> None:
    queued = [post(http, queue, at=f"2099-01-01T00:00:0{n}Z") for n in range(5)]
    response = http.get("/sets/scheduled", params={"limit": 2})
    if isinstance(server, FaktoryServer):
        assert response.status_code == 501
        assert server.web_url in response.json()["detail"]
        return
    found = []
    while True:
        page = response.json()
        assert page["total"] == 5
        found += jids([entry["job"] for entry in page["jobs"]])
        if page["next"] is None:
            break
        response = http.get("/sets/scheduled", params={"limit": 2, "after": page["next"]})
    assert sorted(found) == sorted(queued)


@pytest.mark.parametrize(
    "path", ["/sets/dead?limit=0", "/sets/dead?limit=1001", "/sets/dead?after=-1", "/sets/x"]
)
def test_a_page_that_is_none_is_refused(http: httpx.Client, path: str) -> None:
    assert http.get(path).status_code == 422
    assert http.get(f"/sets/dead?after={2**63}").status_code == 422


# One job


def test_a_job_can_be_followed_or_a_person_is_told_where_to_look(
    http: httpx.Client, server: AnyServer, raw: RawClient, queue: str
) -> None:
    jid = post(http, queue)
    response = http.get(f"/jobs/{jid}")
    if isinstance(server, FaktoryServer):
        assert response.status_code == 501
        assert server.web_url in response.json()["detail"]
        return
    assert isinstance(server, BrokerServer)
    states = [response.json()["state"]]
    raw.call(f"FETCH {queue}")
    states.append(http.get(f"/jobs/{jid}").json()["state"])
    assert raw.call("ACK " + json.dumps({"jid": jid})) == "OK"
    assert http.get(f"/jobs/{jid}").status_code == 404
    assert len(set(states)) == 2, states


@pytest.mark.parametrize(
    "jid", ["%2e%2e%2fstats", "unknown-job%3Flimit=1", "0123456%23789", "%00" * 9]
)
def test_a_strange_jid_is_only_not_known(http: httpx.Client, server: AnyServer, jid: str) -> None:
    expected = 501 if isinstance(server, FaktoryServer) else 404
    assert http.get(f"/jobs/{jid}").status_code in (expected, 404)
    assert http.get("/jobs/short").status_code == expected
    assert http.get(f"/jobs/{'x' * 201}").status_code == 422
