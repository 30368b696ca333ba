"""Running the service: its probes and figures, its keys, and starts that must fail."""

import json
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from devservers import BrokerServer, FaktoryServer
from devservers.api import ApiServer
from devservers.processes import wait_until
from manyhands.api.keys import new_key
from manyhands.shared.version import VERSION
from tests.conftest import ON_BOTH_SERVERS, PASSWORD, AnyServer
from tests.support.api_command import refusal, run_api
from tests.support.odd_servers import listening
from tests.support.waiting import eventually

EVERY_SCOPE = "ingest+read+admin"


def client_of(api: ApiServer, **headers: str) -> httpx.Client:
    return httpx.Client(base_url=api.url, trust_env=False, timeout=15, headers=headers)


def figures(text: str) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def queued_jobs(http: httpx.Client, queue: str) -> int:
    jobs: int = http.get("/stats").json()["faktory"]["queues"].get(queue, 0)
    return jobs


# Probes and figures


@ON_BOTH_SERVERS
def test_the_probes_are_good(http: httpx.Client) -> None:
    assert http.get("/healthz").json() == {"status": "ok"}
    assert http.get("/readyz").json() == {"status": "ready", "damaged_shards": []}
    assert http.get("/version").json() == {"version": VERSION}


@pytest.mark.parametrize("path", ["/stats", "/queues", "/sets/dead?limit=1", "/metrics"])
def test_a_query_parameter_that_a_route_does_not_have_is_named(
    http: httpx.Client, path: str
) -> None:
    answer = http.get(path, params=dict(httpx.QueryParams(path.partition("?")[2])) | {"limt": 1})
    assert answer.status_code == 422
    assert answer.json()["field"] == "query.limt"
    assert "'limt'" in answer.json()["detail"]


@ON_BOTH_SERVERS
def test_stats_are_the_servers_own_with_sets_in_one_shape(http: httpx.Client, queue: str) -> None:
    for options in ({}, {}, {"at": "2099-01-01T00:00:00Z"}):
        http.post("/jobs/add", params={"queue": queue} | options, json={"a": 1, "b": 2})
    # INFO is kept for a second.
    wait_until(lambda: queued_jobs(http, queue) == 2, 10)
    stats = http.get("/stats").json()
    assert stats["faktory"]["queues"][queue] == 2
    assert stats["faktory"]["sets"] == {"scheduled": 1, "retries": 0, "dead": 0, "working": 0}
    assert stats["server"]["connections"] >= 4


@ON_BOTH_SERVERS
def test_metrics_tell_of_the_service_and_of_the_server(http: httpx.Client, queue: str) -> None:
    before = figures(http.get("/metrics").text)
    for _ in range(3):
        http.post("/jobs/add", params={"queue": queue}, json={"a": 1, "b": 2})
    http.post("/jobs", json=[{"jobtype": "add", "args": {"a": 1, "b": 2}, "queue": queue}] * 2)
    http.post("/jobs/add", json={"a": 1})
    wait_until(lambda: queued_jobs(http, queue) == 5, 10)
    response = http.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    after = figures(response.text)

    def rise(*name: str) -> float:
        return after[name] - before.get(name, 0)

    assert rise("api_requests_total", "single", "202") == 3
    assert rise("api_requests_total", "single", "422") == 1
    assert rise("api_requests_total", "/jobs", "202") == 1
    assert rise("api_jobs_accepted_total", "single") == 3
    assert rise("api_jobs_accepted_total", "list") == 2
    assert rise("api_batch_size_sum") == 3
    assert rise("api_push_seconds_count") >= 1
    assert after["api_jobs_held",] == 0
    assert after["faktory_up",] == 1
    assert after["faktory_queue_jobs", queue] == 5
    assert ("faktory_queue_latency_seconds", queue) in after
    assert after["faktory_connections",] >= 4
    assert after["faktory_set_jobs", "dead"] == 0
    assert after["faktory_processed_total",] >= 0


def test_several_processes_share_the_port_and_add_up_their_figures(
    broker_process: BrokerServer,
) -> None:
    with ApiServer(broker_process, settings={"API_PROCESSES": "2"}) as api:
        posted = 0
        for _ in range(60):
            # A connection each, so that both get some.
            with client_of(api) as http:
                assert http.post("/jobs/add", json={"a": 1, "b": 2}).status_code == 202
                posted += 1

        def counted() -> float:
            with client_of(api) as http:
                return figures(http.get("/metrics").text)["api_jobs_accepted_total", "single"]

        for _ in range(3):
            # Whoever is asked asks the other, and does not wait for long.
            assert wait_until(lambda: counted() == posted, 15), counted()
        api.signal(signal.SIGTERM)
        api.wait_ended()


@ON_BOTH_SERVERS
def test_what_is_not_there_is_a_problem_document(http: httpx.Client) -> None:
    for response, status in (
        (http.get("/nowhere"), 404),
        (http.put("/jobs/add", json={}), 405),
        (http.get("/jobs"), 405),
        (http.post("/healthz"), 405),
        (http.delete("/queues"), 405),
        (http.get("/docs"), 404),
    ):
        assert response.status_code == status
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["status"] == status
        assert response.headers["x-content-type-options"] == "nosniff"
    for method in ("GET", "PUT"):
        response = http.request(method, "/jobs/add")
        assert (response.status_code, response.headers["allow"]) == (405, "POST")
    assert http.put("/jobs/0123456789", json={}).headers["allow"] == "GET"
    assert http.get("/jobs").headers["allow"] == "POST"


def test_an_answer_of_the_framework_is_secured_as_any_other(
    api: ApiServer, http: httpx.Client
) -> None:
    for response in (
        http.get("/stats"),
        http.post("/jobs/add", json={}),
        http.get("/openapi.json"),
    ):
        assert response.headers["x-frame-options"] == "DENY"
        assert response.headers["content-security-policy"].startswith("default-src 'none'")
        assert "access-control-allow-origin" not in response.headers


# Keys


@pytest.fixture(scope="module")
def locked(broker_process: BrokerServer) -> Iterator[tuple[ApiServer, dict[str, str]]]:
    """A service with a key for each scope, one for all, and two for one user."""
    names = {"ingest": "ingest", "read": "read", "admin": "admin", "all": EVERY_SCOPE}
    made = {name: new_key(name, scopes) for name, scopes in names.items()}
    made["all-next"] = new_key("all-next", EVERY_SCOPE)
    entries = ",".join(entry for _, entry in made.values())
    with ApiServer(broker_process, settings={"API_KEYS": entries}) as api:
        yield api, {name: secret for name, (secret, _) in made.items()}


def test_each_key_opens_its_own_routes_only(locked: tuple[ApiServer, dict[str, str]]) -> None:
    api, secrets = locked
    routes: dict[str, Callable[[httpx.Client], httpx.Response]] = {
        "ingest": lambda http: http.post("/jobs/add", json={"a": 1, "b": 2}),
        "read": lambda http: http.get("/stats"),
        "admin": lambda http: http.post("/queues/default/clear"),
    }
    for holder in ("ingest", "read", "admin", "all"):
        with client_of(api, **{"X-API-Key": secrets[holder]}) as http:
            for scope, ask in routes.items():
                response = ask(http)
                assert (response.status_code < 300) == (holder in (scope, "all")), (holder, scope)
                if holder not in (scope, "all"):
                    assert response.status_code == 403
                    assert response.json()["scope"] == scope


def test_a_key_is_given_in_either_header(locked: tuple[ApiServer, dict[str, str]]) -> None:
    api, secrets = locked
    for headers in (
        {"X-API-Key": secrets["all"]},
        {"Authorization": f"Bearer {secrets['all']}"},
        {"X-API-Key": secrets["all-next"]},
    ):
        with client_of(api, **headers) as http:
            assert http.get("/queues").status_code == 200


def test_without_a_known_key_nothing_but_probes_is_answered(
    locked: tuple[ApiServer, dict[str, str]],
) -> None:
    api, _ = locked
    for headers in ({}, {"X-API-Key": "mh_wrong"}, {"Authorization": "Basic YTpi"}):
        with client_of(api, **headers) as http:
            for path in ("/healthz", "/readyz", "/version"):
                assert http.get(path).status_code == 200
            for path in ("/metrics", "/stats", "/queues", "/openapi.json", "/nowhere"):
                response = http.get(path)
                assert response.status_code == 401
                assert response.headers["www-authenticate"].startswith("Bearer")
            assert http.post("/jobs/add", json={"a": 1, "b": 2}).status_code == 401


def test_a_key_is_held_to_its_rate(broker_process: BrokerServer) -> None:
    one, two = new_key("one", "ingest"), new_key("two", "ingest")
    settings = {"API_KEYS": f"{one[1]},{two[1]}", "API_RATE_PER_KEY": "5"}
    job = {"jobtype": "add", "args": {"a": 1, "b": 2}}
    with ApiServer(broker_process, settings=settings) as api:
        with client_of(api, **{"X-API-Key": one[0]}) as http:
            assert http.post("/jobs", json=[job] * 100).status_code == 202
            for response in (
                http.post("/jobs/add", json={"a": 1, "b": 2}),
                http.post("/jobs", json=[job]),
            ):
                assert response.status_code == 429
                assert 1 <= int(response.headers["retry-after"]) <= 19
        with client_of(api, **{"X-API-Key": two[0]}) as http:
            assert http.post("/jobs/add", json={"a": 1, "b": 2}).status_code == 202


# Pages of other origins


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Host": "rebound.example"},
        {"Host": "rebound.example", "Origin": "http://rebound.example"},
    ],
)
def test_a_page_of_another_origin_cannot_queue_a_job(
    http: httpx.Client, api: ApiServer, headers: dict[str, str]
) -> None:
    for response in (
        http.post("/jobs/add", content=b'{"a": 1, "b": 2}', headers=headers),
        http.post("/jobs", content=b"https://example.com/", headers=headers),
        http.get("/stats", headers=headers),
    ):
        assert response.status_code == 403
        assert response.headers["content-type"] == "application/problem+json"
        assert "access-control-allow-origin" not in response.headers


def test_a_page_of_its_own_is_let_in(http: httpx.Client, api: ApiServer) -> None:
    headers = {"Origin": api.url, "Sec-Fetch-Site": "same-origin"}
    response = http.post("/jobs/add", content=b'{"a": 1, "b": 2}', headers=headers)
    assert response.status_code == 202


# Starts that must fail


@pytest.mark.parametrize("keys", ["", " ", ","])
def test_beyond_this_machine_it_does_not_listen_without_a_key(keys: str) -> None:
    said = refusal(API_BIND="0.0.0.0:0", API_KEYS=keys)
    assert "API_KEYS" in said


def test_a_key_in_place_of_its_entry_is_refused_and_not_repeated() -> None:
    secret, _ = new_key("ops", "read")
    said = refusal(API_KEYS=secret)
    assert "entry 1" in said
    assert secret not in said


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BATCH_MAX_SIZE", "0"),
        ("CRAWL_SHARDS", "0"),
        ("API_BIND", "3000"),
        ("FAKTORY_URL", "http://x"),
    ],
)
def test_a_wrong_setting_is_named(name: str, value: str) -> None:
    assert name in refusal(**{name: value})


def test_a_wrong_password_ends_it_with_one_clear_line(server_with_password: AnyServer) -> None:
    wrong = server_with_password.url.replace(quote(PASSWORD, safe=""), "wrong-one")
    said = refusal(FAKTORY_URL=wrong)
    assert "refused the password" in said
    assert "wrong-one" not in said
    bare = f"tcp://127.0.0.1:{server_with_password.port}"
    assert "needs a password" in refusal(FAKTORY_URL=bare)


def test_a_server_that_is_none_ends_it_with_one_clear_line() -> None:
    with listening(b"SSH-2.0-OpenSSH_9.6\r\n") as port:
        assert "is not a Faktory server" in refusal(FAKTORY_URL=f"tcp://127.0.0.1:{port}")


def test_a_port_that_is_taken_ends_it_with_a_clear_line(broker_process: BrokerServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_api(API_BIND=f"127.0.0.1:{port}", FAKTORY_URL=broker_process.url)
    assert done.returncode != 0
    assert f"'127.0.0.1', {port}" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_key_is_made_and_its_entry_lets_it_in(broker_process: BrokerServer) -> None:
    done = run_api("key", "ci", "ingest+read")
    assert (done.returncode, done.stderr) == (0, "")
    secret, entry = (line.rpartition(" ")[2] for line in done.stdout.splitlines())
    with (
        ApiServer(broker_process, settings={"API_KEYS": entry}) as api,
        client_of(api, **{"X-API-Key": secret}) as http,
    ):
        assert http.get("/stats").status_code == 200
    assert "scopes" in refusal("key", "ci", "write")


def test_help_names_every_setting() -> None:
    text = run_api("--help").stdout
    for name in ("--api-bind", "--api-keys-file", "--batch-max-size", "--faktory-url", "API_KEYS"):
        assert name in text


# What it says and leaves behind


def test_without_a_key_it_says_so(broker_process: BrokerServer) -> None:
    with ApiServer(broker_process) as api:
        assert "no API keys" in api.log_text


@pytest.mark.parametrize("processes", ["1", "2"])
def test_it_ends_in_order_and_leaves_nothing_behind(
    broker_process: BrokerServer, tmp_path: Path, processes: str
) -> None:
    settings = {"API_PROCESSES": processes, "TMPDIR": str(tmp_path)}
    with ApiServer(broker_process, settings=settings) as api:
        assert len(list(tmp_path.iterdir())) == 1
        api.signal(signal.SIGTERM)
        assert api.wait_ended() == 0
        assert list(tmp_path.iterdir()) == []
        assert "Traceback" not in api.log_text


async def test_no_secret_is_in_any_log_line(server_with_password: AnyServer) -> None:
    secret, entry = new_key("ops", EVERY_SCOPE)
    settings = {"API_KEYS": entry, "API_LOG_LEVEL": "debug"}
    with ApiServer(server_with_password, settings=settings) as api:
        with client_of(api, **{"X-API-Key": secret}) as http:
            assert http.post("/jobs/add", json={"a": 1, "b": 2}).status_code == 202
            assert http.get("/stats").status_code == 200
            assert http.get("/sets/dead").status_code in (200, 501)
            assert http.get(f"/stats?key={secret}").status_code == 422
            assert http.post("/jobs/add", content=b"\xff").status_code == 400
        with client_of(api, Authorization="Bearer mh_wrong-secret") as http:
            assert http.get("/stats").status_code == 401
        server_with_password.kill()
        await eventually(lambda: "was lost" in api.log_text, what="the loss was not told")
        with client_of(api, **{"X-API-Key": secret}) as http:
            assert http.post("/jobs/add", json={"a": 1, "b": 2}).status_code == 503
        server_with_password.start()
        api.signal(signal.SIGTERM)
        assert api.wait_ended() == 0
        log = api.log_text
    assert '"level": "warning"' in log
    for text in (PASSWORD, quote(PASSWORD, safe=""), secret, entry.rpartition(":")[2], "mh_wrong"):
        assert text not in log


def test_every_line_that_it_logs_is_json(broker_process: BrokerServer) -> None:
    with ApiServer(broker_process) as api:
        with client_of(api) as http:
            http.get("/stats")
        api.signal(signal.SIGTERM)
        api.wait_ended()
        for line in api.log_text.splitlines():
            assert json.loads(line)["level"]


def test_a_faktory_with_tls_is_served_too() -> None:
    with FaktoryServer(tls=True) as server, ApiServer(server) as api, client_of(api) as http:
        assert http.post("/jobs/add", json={"a": 1, "b": 2}).status_code == 202
        assert http.get("/stats").status_code == 200
