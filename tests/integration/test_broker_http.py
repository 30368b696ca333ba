"""What the broker shows over HTTP, seen by a real client of the running process."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from devservers import BrokerServer, FaktoryServer
from manyhands.shared.jobs import new_jid
from tests.conftest import PASSWORD
from tests.support.raw_client import RawClient

JOBS = 250
FUTURE = "2099-01-01T00:00:00Z"


@pytest.fixture
def raw(broker_process: BrokerServer) -> Iterator[RawClient]:
    with RawClient(broker_process.url) as raw:
        assert raw.call("FLUSH") == "OK"
        yield raw


@pytest.fixture
def web(broker_process: BrokerServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=broker_process.web_url, trust_env=False, timeout=20) as web:
        yield web


def push(raw: RawClient, count: int = 1, **fields: Any) -> list[str]:
    jobs = [
        {"jid": new_jid(), "jobtype": "any", "args": ["ä", 2**70]} | fields for _ in range(count)
    ]
    assert raw.call("PUSHB " + json.dumps(jobs)) == "{}"
    return [job["jid"] for job in jobs]


def put_into(raw: RawClient, name: str, queue: str) -> str:
    """One job in the set; its jid."""
    if name == "scheduled":
        return push(raw, queue=queue, at=FUTURE)[0]
    (jid,) = push(raw, queue=queue, retry=-1 if name == "dead" else 5)
    assert raw.call(f"FETCH {queue}")
    assert raw.call("FAIL " + json.dumps({"jid": jid, "message": "on purpose"})) == "OK"
    return jid


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    # Go writes 0 for 0.0.
    return float if isinstance(value, int) else type(value)


def test_stats_are_what_info_says(raw: RawClient, web: httpx.Client, queue: str) -> None:
    push(raw, 3, queue=queue)
    stats = web.get("/stats").raise_for_status().json()
    assert shape(stats) == shape(raw.info())
    # Its tasks are at work meanwhile.
    tasks = {"tasks": stats["faktory"]["tasks"]}
    assert stats["faktory"] == raw.info()["faktory"] | tasks
    assert stats["faktory"]["queues"] == {queue: 3}


def test_health_is_good(web: httpx.Client) -> None:
    response = web.get("/health")
    assert (response.status_code, response.json()["status"]) == (200, "ok")


@pytest.mark.parametrize("page", ["/stats", "/health"])
def test_pages_that_faktory_has_too_have_the_same_shape(
    faktory: FaktoryServer, web: httpx.Client, raw: RawClient, queue: str, page: str
) -> None:
    push(raw, queue=queue)
    with RawClient(faktory.url) as theirs_raw:
        push(theirs_raw, queue=queue)
    theirs = httpx.get(faktory.web_url + page, trust_env=False).raise_for_status()
    ours = web.get(page).raise_for_status()
    # Words of our own: why it is not well, and which queues are paused.
    own_word = {"status": str} if page == "/health" else {}
    expected = theirs.json()
    if page == "/stats":
        expected["faktory"]["paused"] = []
    # A Faktory lists the queues of earlier tests, too, though a FLUSH has emptied them.
    listed = expected.get("faktory", {}).get("queues", {})
    for name in [name for name, size in listed.items() if not size]:
        del listed[name]
    assert shape(ours.json()) == shape(expected) | own_word
    assert ours.headers["content-type"] == theirs.headers["content-type"]


def test_metrics_are_prometheus_text(raw: RawClient, web: httpx.Client, queue: str) -> None:
    push(raw, 3, queue=queue)
    put_into(raw, "dead", f"{queue}-other")
    response = web.get("/metrics").raise_for_status()
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {family.name: family for family in text_string_to_metric_families(response.text)}
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in families.values()
        for sample in family.samples
    }
    assert samples["broker_queue_jobs", queue] == 3
    assert samples["broker_queue_latency_seconds", queue] >= 0
    assert samples["broker_set_jobs", "dead"] == 1
    assert samples["broker_set_jobs", "working"] == 0
    assert samples["broker_connections",] == 1
    assert samples["broker_disk_full",] == 0
    assert samples["broker_resident_bytes",] > 1_000_000
    assert samples["broker_failures_total",] >= 1
    assert families["broker_processed"].type == "counter"
    assert all(family.documentation for family in families.values())


@pytest.mark.parametrize("name", ["scheduled", "retries", "dead"])
def test_a_set_shows_its_jobs_as_they_were_pushed(
    raw: RawClient, web: httpx.Client, queue: str, name: str
) -> None:
    jid = put_into(raw, name, queue)
    page = web.get(f"/sets/{name}").raise_for_status().json()
    assert page["total"] == 1
    assert page["next"] is None
    (entry,) = page["jobs"]
    assert entry["job"]["jid"] == jid
    assert entry["job"]["args"] == ["ä", 2**70]
    assert entry["at"].endswith("Z")
    assert (name == "scheduled") == (entry["at"] == FUTURE)
    assert ("failure" in entry["job"]) == (name != "scheduled")
    for other in {"scheduled", "retries", "dead"} - {name}:
        assert web.get(f"/sets/{other}").json() == {"total": 0, "jobs": [], "next": None}


@pytest.mark.parametrize("limit", [None, 1000, 100, 125, 7])
def test_a_large_set_is_read_page_by_page(
    raw: RawClient, web: httpx.Client, queue: str, limit: int | None
) -> None:
    jids = push(raw, JOBS, queue=queue, at=FUTURE)
    seen: list[str] = []
    following: int | None = 0
    while following is not None:
        parameters = {"after": following} | ({} if limit is None else {"limit": limit})
        page = web.get("/sets/scheduled", params=parameters).raise_for_status().json()
        assert page["total"] == JOBS
        assert len(page["jobs"]) <= (limit or 100)
        seen += [entry["job"]["jid"] for entry in page["jobs"]]
        following = page["next"]
    assert seen == jids


@pytest.mark.parametrize("query", ["after=x", "limit=many", "after=1.5", "limit="])
def test_a_page_that_cannot_be_is_a_bad_request(web: httpx.Client, query: str) -> None:
    response = web.get(f"/sets/dead?{query}")
    assert response.status_code == 400
    assert "after and limit" in response.json()["error"]


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=-5", "limit=99999999", "after=-1", f"after={10**20}"]
)
def test_a_limit_out_of_bounds_is_brought_into_them(web: httpx.Client, query: str) -> None:
    assert web.get(f"/sets/dead?{query}").status_code == 200


def test_what_is_not_there_is_not_found(web: httpx.Client) -> None:
    response = web.get("/sets/working")
    assert response.status_code == 404
    assert "scheduled, retries, dead" in response.json()["error"]
    assert web.get("/nothing").status_code == 404
    assert web.get("/").status_code == 404
    assert web.post("/stats").status_code == 405


PAGES = ["/stats", "/metrics", "/sets/dead"]


@pytest.fixture(scope="module")
def locked_web() -> Iterator[httpx.Client]:
    with (
        BrokerServer(password=PASSWORD) as server,
        httpx.Client(base_url=server.web_url, trust_env=False, timeout=20) as web,
    ):
        yield web


@pytest.mark.parametrize("page", [*PAGES, "/nothing"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Basic"},
        {"Authorization": "Basic !!!"},
        {"Authorization": "Basic bm8tY29sb24="},
        {"Authorization": f"Bearer {'x' * 20}"},
    ],
)
def test_without_the_password_there_is_nothing_to_see(
    locked_web: httpx.Client, page: str, headers: dict[str, str]
) -> None:
    response = locked_web.get(page, headers=headers)
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == 'Basic realm="broker"'


@pytest.mark.parametrize("page", PAGES)
def test_the_password_opens_with_any_user_name(locked_web: httpx.Client, page: str) -> None:
    for user in ("", "anybody", "ä"):
        assert locked_web.get(page, auth=(user, PASSWORD)).status_code == 200
    for wrong in ("", PASSWORD[:-1], PASSWORD + "x", "wrong"):
        assert locked_web.get(page, auth=("anybody", wrong)).status_code == 401


def test_health_needs_no_password_and_tells_nothing(locked_web: httpx.Client) -> None:
    assert locked_web.get("/health").json()["status"] == "ok"
