"""POST /jobs: what a client sends is what is on the server when it has its answer."""

import gzip
import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
import zstandard

from devservers import FaktoryServer
from devservers.api import ApiServer
from manyhands.shared.urls import shard_queue
from tests.conftest import ON_BOTH_SERVERS, AnyServer
from tests.support.http_socket import HttpSocket
from tests.support.worker_process import AnyState

pytestmark = ON_BOTH_SERVERS

NDJSON = {"Content-Type": "application/x-ndjson"}
PLAIN = {"Content-Type": "text/plain; charset=utf-8"}
URLS = ["https://example.com/a", "http://news.bbc.co.uk/b?c=d", "https://例え.jp/"]


def lines_of(count: int, queue: str) -> bytes:
    jobs = [{"jobtype": "add", "args": {"a": n, "b": 0}, "queue": queue} for n in range(count)]
    return b"".join(json.dumps(job).encode() + b"\n" for job in jobs)


def args_in(state: AnyState, queue: str) -> list[Any]:
    return sorted(job["args"] for job in state.queue(queue))


@pytest.fixture(scope="module")
def permissive(request: pytest.FixtureRequest) -> Iterator[dict[str, ApiServer]]:
    """Services that take unknown types, by the URL of their server."""
    started: dict[str, ApiServer] = {}
    yield started
    for api in started.values():
        api.stop()


# One job


def test_the_guides_own_curl_queues_a_job_with_exactly_these_fields(
    api: ApiServer, state: AnyState
) -> None:
    before = datetime.now(UTC)
    done = subprocess.run(
        [
            *("curl", "-s", "-X", "POST", f"{api.url}/jobs/add", "-d", '{"a": 1, "b": 1}'),
            *("-w", "\n%{http_code} %{content_type}"),
        ],
        capture_output=True,
        encoding="utf-8",
        timeout=50,
        check=True,
    )
    body, status = done.stdout.rsplit("\n", 1)
    assert status == "202 application/json"
    answer = json.loads(body)
    assert answer == {"jid": answer["jid"], "queue": "default"}
    (job,) = state.queue("default")
    created_at, enqueued_at = job.pop("created_at"), job.pop("enqueued_at")
    assert job == {
        "jid": answer["jid"],
        "jobtype": "add",
        "args": [1, 1],
        "queue": "default",
        "retry": 25,
        "reserve_for": 1800,
        "custom": {"mh": {"id": answer["jid"], "deliveries": 0}},
    }
    for moment in (created_at, enqueued_at):
        assert before <= datetime.fromisoformat(moment) <= datetime.now(UTC)


def test_the_answer_says_where_to_look_for_the_job(http: httpx.Client) -> None:
    response = http.post("/jobs/add", json={"a": 1, "b": 2})
    assert response.status_code == 202
    assert response.headers["location"] == f"/jobs/{response.json()['jid']}"
    assert response.headers["cache-control"] == "no-store"
    assert "server" not in response.headers


@pytest.mark.parametrize(
    "content_type", ["application/json", "application/x-www-form-urlencoded", "text/html", None]
)
def test_json_is_read_whatever_the_content_type_says(
    http: httpx.Client, state: AnyState, content_type: str | None
) -> None:
    headers = {"Content-Type": content_type} if content_type else {}
    response = http.post("/jobs/add", content=b'{"a": 3, "b": 4}', headers=headers)
    assert response.status_code == 202
    assert args_in(state, "default") == [[3, 4]]


def test_options_are_fields_of_the_job(http: httpx.Client, state: AnyState, queue: str) -> None:
    response = http.post(
        "/jobs/add",
        params={"queue": queue, "retry": "3", "reserve_for": "120"},
        json={"a": 1, "b": 2},
    )
    assert response.json()["queue"] == queue
    (job,) = state.queue(queue)
    assert (job["retry"], job["reserve_for"]) == (3, 120)


@pytest.mark.parametrize("option", ["in", "at"])
def test_a_job_of_the_future_is_scheduled(
    http: httpx.Client, state: AnyState, queue: str, option: str
) -> None:
    due = datetime.now(UTC) + timedelta(hours=1)
    value = "3600" if option == "in" else due.isoformat()
    response = http.post("/jobs/add", params={option: value, "queue": queue}, json={"a": 1, "b": 2})
    assert response.status_code == 202
    (job,) = state.scheduled
    assert job["jid"] == response.json()["jid"]
    assert abs(datetime.fromisoformat(job["at"]) - due) < timedelta(seconds=30)
    assert state.queue(queue) == []


def test_a_page_is_queued_with_its_domain(http: httpx.Client, state: AnyState) -> None:
    for url in URLS:
        response = http.post("/jobs/fetch", json={"url": url})
        assert response.status_code == 202, response.text
        queue = shard_queue(url, 64)
        assert response.json()["queue"] == queue
        assert [job["args"] for job in state.queue(queue)] == [[url]]


def test_an_integer_that_the_server_would_change_is_refused(
    http: httpx.Client, server: AnyServer, state: AnyState
) -> None:
    response = http.post("/jobs/add", content=b'{"a": 9007199254740993, "b": 1}')
    if isinstance(server, FaktoryServer):
        assert response.status_code == 422
        assert "as a string" in response.json()["detail"]
    else:
        assert response.status_code == 202
        assert args_in(state, "default") == [[9007199254740993, 1]]


def test_a_type_without_a_model_is_taken_where_that_is_allowed(
    http: httpx.Client,
    server: AnyServer,
    state: AnyState,
    queue: str,
    permissive: dict[str, ApiServer],
) -> None:
    refused = http.post("/jobs/resize", json={"width": 7})
    assert refused.status_code == 404
    assert refused.json()["field"] == "jobtype"
    if server.url not in permissive:
        permissive[server.url] = ApiServer(server, settings={"API_ALLOW_UNKNOWN_TYPES": "true"})
        permissive[server.url].start()
    taken = httpx.post(
        f"{permissive[server.url].url}/jobs/resize?queue={queue}",
        json={"width": 7, "text": "a\x00b\n\u2028"},
        trust_env=False,
        timeout=20,
    )
    assert taken.status_code == 202
    (job,) = state.queue(queue)
    assert (job["jobtype"], job["args"]) == ("resize", [{"width": 7, "text": "a\x00b\n\u2028"}])


def test_every_one_of_many_requests_at_once_is_answered_for_its_own_job(
    api: ApiServer, http: httpx.Client, state: AnyState, queue: str
) -> None:
    def figure(name: str) -> float:
        return float(http.get("/metrics").text.split(f"{name} ")[1].split("\n")[0])

    before = figure("api_batch_size_count")
    answered: dict[str, list[int]] = {}
    with ExitStack() as stack:
        clients = [stack.enter_context(HttpSocket(api.port)) for _ in range(100)]
        for first in range(0, 1000, 100):
            for number, client in enumerate(clients, first):
                body = b'{"a": %d, "b": 0}' % number
                length = f"Content-Length: {len(body)}"
                client.request("POST", f"/jobs/add?queue={queue}", length, body=body)
            for number, client in enumerate(clients, first):
                answer = client.answer()
                assert answer.status == 202
                answered[answer.json()["jid"]] = [number, 0]
    assert {job["jid"]: job["args"] for job in state.queue(queue)} == answered
    assert len(answered) == 1000
    # They travelled together.
    assert figure("api_batch_size_count") - before < 500


# Many jobs


def test_a_list_is_queued_in_its_order(http: httpx.Client, state: AnyState, queue: str) -> None:
    jobs = [{"jobtype": "add", "args": {"a": n, "b": n}, "queue": queue} for n in range(2500)]
    response = http.post("/jobs", json=jobs)
    assert response.status_code == 202, response.text
    answer = response.json()
    assert answer["accepted"] == 2500
    stored = {job["jid"]: job["args"] for job in state.queue(queue)}
    assert [stored[job["jid"]] for job in answer["jobs"]] == [[n, n] for n in range(2500)]
    assert {job["queue"] for job in answer["jobs"]} == {queue}


def test_of_a_list_with_a_fault_nothing_is_queued(
    http: httpx.Client, state: AnyState, queue: str
) -> None:
    good = {"jobtype": "add", "args": {"a": 1, "b": 2}, "queue": queue}
    response = http.post("/jobs", json=[good, good | {"args": {"a": 1}}, good])
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"
    (error,) = response.json()["errors"]
    assert (error["index"], error["field"]) == (1, "args.b")
    assert state.queue(queue) == []


def test_a_list_has_its_limit(http: httpx.Client, state: AnyState, queue: str) -> None:
    job = {"jobtype": "add", "args": {"a": 1, "b": 2}, "queue": queue}
    assert http.post("/jobs", json=[job] * 10_001).status_code == 413
    assert state.queue(queue) == []
    assert http.post("/jobs", json=[job] * 10_000).json()["accepted"] == 10_000
    assert len(state.queue(queue)) == 10_000


@pytest.mark.parametrize("encoding", ["", "gzip", "zstd"])
def test_ndjson_is_taken_plain_and_packed(
    http: httpx.Client, state: AnyState, queue: str, encoding: str
) -> None:
    body = lines_of(3500, queue)
    packed = {
        "": body,
        "gzip": gzip.compress(body),
        "zstd": zstandard.ZstdCompressor().compress(body),
    }
    headers = NDJSON | ({"Content-Encoding": encoding} if encoding else {})
    response = http.post("/jobs", content=packed[encoding], headers=headers)
    assert response.status_code == 202, response.text
    assert response.json() == {"accepted": 3500, "refused": 0, "errors": []}
    assert args_in(state, queue) == [[n, 0] for n in range(3500)]


def test_ndjson_of_unknown_length_is_taken_as_it_comes(
    http: httpx.Client, state: AnyState, queue: str
) -> None:
    body = lines_of(300, queue)

    def pieces() -> Iterator[bytes]:
        for start in range(0, len(body), 777):
            yield body[start : start + 777]

    response = http.post("/jobs", content=pieces(), headers=NDJSON)
    assert response.json()["accepted"] == 300
    assert args_in(state, queue) == [[n, 0] for n in range(300)]


def test_a_bad_line_is_named_and_the_others_are_queued(
    http: httpx.Client, state: AnyState, queue: str
) -> None:
    good = lines_of(1, queue)
    body = good + b"not json\n\n" + good + b'{"jobtype": "add", "args": {"a": 1}}\r\n' + good
    response = http.post("/jobs", content=body, headers=NDJSON)
    assert response.status_code == 202
    answer = response.json()
    assert (answer["accepted"], answer["refused"]) == (3, 2)
    assert [(error["line"], error["status"]) for error in answer["errors"]] == [(2, 400), (5, 422)]
    assert answer["errors"][1]["field"] == "args.b"
    assert len(state.queue(queue)) == 3


def test_plain_text_is_a_page_a_line(http: httpx.Client, state: AnyState) -> None:
    body = "\n".join([*URLS, "", "not a url", URLS[0]]).encode()
    response = http.post("/jobs", content=body, headers=PLAIN)
    answer = response.json()
    assert (response.status_code, answer["accepted"], answer["refused"]) == (202, 4, 1)
    assert (answer["errors"][0]["line"], answer["errors"][0]["field"]) == (5, "args.url")
    found = [
        job["args"][0] for queue in {shard_queue(u, 64) for u in URLS} for job in state.queue(queue)
    ]
    assert sorted(found) == sorted([*URLS, URLS[0]])


def test_plain_text_has_its_options_in_the_query(
    http: httpx.Client, state: AnyState, queue: str
) -> None:
    response = http.post(f"/jobs?queue={queue}&retry=2", content=URLS[0], headers=PLAIN)
    assert response.status_code == 202
    (job,) = state.queue(queue)
    assert (job["args"], job["retry"]) == ([URLS[0]], 2)


def test_options_of_a_list_in_the_query_are_refused_not_forgotten(
    http: httpx.Client, state: AnyState, queue: str
) -> None:
    for headers in (NDJSON, {}):
        response = http.post(f"/jobs?queue={queue}", content=lines_of(1, queue), headers=headers)
        assert (response.status_code, response.json()["title"]) == (400, "Bad Request")
    assert state.queue(queue) == []
