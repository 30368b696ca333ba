"""What clients make the API and the broker hold is bounded by bytes: pages of large jobs, and
streams that come slowly."""

import contextlib
import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import psutil
import pytest

from devservers import BrokerServer
from devservers.api import ApiServer
from manyhands.api.keys import new_key
from manyhands.shared.http.limits import HELD_PAGES_BYTES, PAGE_BYTES
from manyhands.shared.jobs import new_jid
from tests.acceptance.scale import OTHERS_WAIT_S
from tests.support.http_attack import MEBIBYTE, round_trip, watched
from tests.support.http_socket import HttpSocket
from tests.support.raw_client import RawClient

LARGE_JOBS = 120
GROWTH_BYTES = 160 * MEBIBYTE
NDJSON = "Content-Type: application/x-ndjson"
CHUNKED = "Transfer-Encoding: chunked"

pytestmark = [pytest.mark.timeout(120), pytest.mark.alone]


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerServer]:
    with BrokerServer() as broker:
        yield broker


@pytest.fixture(scope="module")
def keys() -> dict[str, tuple[str, str]]:
    return {name: new_key(name, "ingest+read") for name in ("one", "other")}


@pytest.fixture(scope="module")
def api(broker: BrokerServer, keys: dict[str, tuple[str, str]]) -> Iterator[ApiServer]:
    entries = ",".join(entry for _, entry in keys.values())
    with ApiServer(broker, settings={"API_KEYS": entries}) as api:
        yield api
        assert "Traceback" not in api.log_text, api.log_text


@pytest.fixture(scope="module")
def scheduled(broker: BrokerServer) -> list[str]:
    """Jids of many jobs of a megabyte, one of more than a page, and a small one."""
    sizes = [MEBIBYTE] * LARGE_JOBS + [PAGE_BYTES + MEBIBYTE, 1]
    jids = []
    with RawClient(broker.url) as raw:
        for size in sizes:
            jids.append(new_jid())
            job = {"jid": jids[-1], "jobtype": "any", "args": ["x" * size]}
            assert raw.call("PUSH " + json.dumps(job | {"at": "2099-01-01T00:00:00Z"})) == "OK"
    return jids


@pytest.fixture(params=["broker", "api"])
def pages(
    request: pytest.FixtureRequest, broker: BrokerServer, keys: dict[str, tuple[str, str]]
) -> Iterator[tuple[httpx.Client, int]]:
    """A client of the service that has the pages, and the service's pid."""
    if request.param == "broker":
        url, pid = broker.web_url, broker.pid
    else:
        api: ApiServer = request.getfixturevalue("api")
        url, pid = api.url, api.pid
    headers = {"X-API-Key": keys["one"][0]}
    with httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=30) as client:
        yield client, pid


def test_pages_of_large_jobs_end_early_and_every_job_comes(
    pages: tuple[httpx.Client, int], scheduled: list[str]
) -> None:
    client, _ = pages
    seen: list[str] = []
    following: int | None = 0
    while following is not None:
        answer = client.get(f"/sets/scheduled?limit=1000&after={following}").raise_for_status()
        jobs = answer.json()["jobs"]
        assert len(jobs) == 1 or len(answer.content) < PAGE_BYTES + 65536
        seen += [entry["job"]["jid"] for entry in jobs]
        following = answer.json()["next"]
    assert seen == scheduled


def test_many_pages_at_once_hold_neither_memory_nor_job_traffic(
    pages: tuple[httpx.Client, int], broker: BrokerServer, scheduled: list[str]
) -> None:
    """Those for which there is no room now are told to come again."""
    client, pid = pages
    statuses: list[int] = []

    def ask() -> None:
        answer = client.get("/sets/scheduled?limit=1000", headers={"Connection": "close"})
        statuses.append(answer.status_code)
        assert answer.status_code == 200 or int(answer.headers["retry-after"]) > 0

    before = psutil.Process(pid).memory_info().rss
    threads = [threading.Thread(target=ask) for _ in range(30)]
    with RawClient(broker.url, wid="pages") as raw, watched(pid, lambda: round_trip(raw)) as watch:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert set(statuses) <= {200, 429, 503} and 200 in statuses
    assert watch.peak_bytes - before < GROWTH_BYTES
    assert watch.p99_s < OTHERS_WAIT_S, f"{watch.p99_s:.3f} s"
    assert client.get("/sets/scheduled").status_code == 200


def test_who_does_not_take_his_pages_holds_no_more_than_all_may(
    broker: BrokerServer, scheduled: list[str]
) -> None:
    web_port = int(broker.web_url.rpartition(":")[2])
    before = psutil.Process(broker.pid).memory_info().rss
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(HttpSocket(web_port)) for _ in range(40)]
        for http in sockets:
            http.request("GET", "/sets/scheduled?limit=1000")
        with RawClient(broker.url, wid="pages") as raw:
            for _ in range(20):
                round_trip(raw)
        grown = psutil.Process(broker.pid).memory_info().rss - before
        assert grown < HELD_PAGES_BYTES + GROWTH_BYTES
    # They are gone: there is room again.
    with httpx.Client(base_url=broker.web_url, trust_env=False, timeout=30) as client:
        for _ in range(50):
            if client.get("/sets/scheduled?limit=1000").status_code == 200:
                return
    raise AssertionError("no page comes any more")


def test_streams_of_one_key_leave_lists_and_streams_to_the_others(
    api: ApiServer, keys: dict[str, tuple[str, str]]
) -> None:
    one, other = (f"X-API-Key: {secret}" for secret, _ in keys.values())
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(HttpSocket(api.port)) for _ in range(66)]
        for http in slow:
            http.request("POST", "/jobs", one, NDJSON, CHUNKED)
            http.chunk(b"{")
        refused = [answer for http in slow if (answer := said(http)) is not None]
        assert refused and {answer["status"] for answer in refused} == {429}
        assert "'one' uses its whole share" in refused[0]["detail"]
        line = b'{"jobtype": "add", "args": {"a": 1, "b": 2}}\n'
        for key in (one, other):
            with HttpSocket(api.port) as http:
                body = b"[" + line + b"]"
                http.request("POST", "/jobs", key, f"Content-Length: {len(body)}", body=body)
                assert http.answer().status == 202
        with HttpSocket(api.port) as http:
            http.request("POST", "/jobs", other, NDJSON, f"Content-Length: {len(line)}", body=line)
            assert http.answer().status == 202


def said(http: HttpSocket) -> dict[str, Any] | None:
    """The answer that came already."""
    http.set_timeout(0.05)
    try:
        answer: dict[str, Any] = http.answer().json()
    except TimeoutError:
        return None
    return answer
