"""Crawls over HTTP, on the real state store: what is answered, and what the workers will find."""

import gzip
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from devservers import BrokerServer, PostgresServer
from devservers.api import ApiServer
from devservers.processes import wait_until
from manyhands.api.keys import new_key
from manyhands.shared.crawl.messages import NO_CRAWL
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.model import DomainRule, Member
from manyhands.shared.crawl.store.opening import store_at
from manyhands.shared.crawl.store.postgres.place import parse_place
from manyhands.shared.crawl.store.protocol import ControlStore
from manyhands.shared.urls import shard_of_domain
from tests.support.api_command import refusal
from tests.support.crawl_state import crawled
from tests.support.crawling import beating

SHARDS = 4
CONTACT = "me@example.org"
SEEDS = ["https://example.org/", "https://example.com/a"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the operator's files, and of the state if it is in files."""
    return tmp_path_factory.mktemp("crawls")


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def state(request: pytest.FixtureRequest, place: Path) -> str:
    """As CRAWL_STATE names it."""
    if request.param == "sqlite":
        return str(place / "state")
    server: PostgresServer = request.getfixturevalue("postgres")
    return f"{server.url}?schema=test_{secrets.token_hex(8)}"


@pytest.fixture(scope="module")
def api(broker_process: BrokerServer, place: Path, state: str) -> Iterator[ApiServer]:
    (place / "files").mkdir(exist_ok=True)
    (place / "files" / "seeds.txt").write_text("https://example.org/\nnowhere\n")
    (place / "files" / "out.txt").write_text("example.net\n")
    settings = {
        "CRAWL_STATE": state,
        "CRAWL_FILES": str(place / "files"),
        "CRAWL_SHARDS": str(SHARDS),
    }
    with ApiServer(broker_process, settings=settings) as api:
        yield api
        assert "Traceback" not in api.log_text, api.log_text


@pytest.fixture
def control(api: ApiServer, state: str) -> Iterator[ControlStore]:
    """The store as a worker sees it."""
    with closing(store_at((state,))) as store, closing(store.open_control()) as control:
        yield control


def change_control_tables(state: str, *statements: str) -> None:
    """Behind the store's back."""
    if "://" not in state:
        with closing(sqlite3.connect(Path(state) / "control.db")) as file, file:
            for statement in statements:
                file.execute(statement)
        return
    place = parse_place(state)
    with psycopg.connect(place.conninfo) as connection:
        connection.execute(f"SET LOCAL search_path = {place.schema}")
        for statement in statements:
            connection.execute(statement)


def crawl_of(**members: Any) -> dict[str, Any]:
    return {"contact": CONTACT, "seeds": SEEDS} | members


@pytest.fixture
def crawl(http: httpx.Client) -> int:
    number: int = http.post("/crawls", json=crawl_of()).json()["id"]
    return number


def waiting_seeds(control: ControlStore, crawl: int) -> dict[int, list[str]]:
    """By shard."""
    return {
        shard: urls
        for shard in range(SHARDS)
        if (
            urls := [
                url
                for batch in control.seeds(shard, 10_000)
                if batch.crawl == crawl
                for url in batch.urls
            ]
        )
    }


def shard_of(domain: str) -> int:
    return shard_of_domain(domain, SHARDS)


# Start


def test_a_crawl_is_there_with_its_seeds_before_it_is_answered(
    http: httpx.Client, control: ControlStore
) -> None:
    wanted = crawl_of(limits={"pages": 10}, labels={"team": "search"})
    response = http.post("/crawls", json=wanted)
    assert response.status_code == 201
    number = response.json()["id"]
    assert response.json() == {"id": number, "state": "starting", "seeds": 2}
    assert response.headers["location"] == f"/crawls/{number}"
    stored = control.crawl(number)
    assert (stored.spec.limits.pages, stored.has_all_seeds) == (10, True)
    assert waiting_seeds(control, number) == {
        shard_of("example.org"): [SEEDS[0]],
        shard_of("example.com"): [SEEDS[1]],
    }
    shown = http.get(response.headers["location"]).json()
    assert shown["spec"]["contact"] == CONTACT
    assert (shown["labels"], shown["seeds_waiting"]) == ({"team": "search"}, 2)


def test_the_same_key_and_request_start_one_crawl(
    http: httpx.Client, control: ControlStore
) -> None:
    headers = {"Idempotency-Key": "once"}
    first = http.post("/crawls", json=crawl_of(), headers=headers)
    again = http.post("/crawls", json=crawl_of(), headers=headers)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    assert sum(map(len, waiting_seeds(control, first.json()["id"]).values())) == 2
    other = http.post("/crawls", json=crawl_of(labels={"a": "b"}), headers=headers)
    assert (other.status_code, other.json()["field"]) == (422, "Idempotency-Key")


def test_what_was_begun_with_a_key_and_not_ended_is_ended_by_its_repetition(
    http: httpx.Client, control: ControlStore, state: str
) -> None:
    headers = {"Idempotency-Key": "cut-short"}
    number = http.post("/crawls", json=crawl_of(), headers=headers).json()["id"]
    # As if the service had died between the crawl and its seeds.
    change_control_tables(
        state,
        f"UPDATE crawls SET has_all_seeds = false WHERE id = {number}",
        f"DELETE FROM seeds WHERE crawl = {number}",
    )
    assert http.post("/crawls", json=crawl_of(), headers=headers).status_code == 200
    assert control.crawl(number).has_all_seeds
    assert sum(map(len, waiting_seeds(control, number).values())) == 2


def test_a_seed_that_is_none_refuses_the_whole_request(http: httpx.Client) -> None:
    newest = http.get("/crawls?limit=1").json()["crawls"]
    response = http.post("/crawls", json=crawl_of(seeds=[*SEEDS, "x", "ftp://a.example/"]))
    assert response.status_code == 422
    assert [error["index"] for error in response.json()["errors"]] == [2, 3]
    assert http.get("/crawls?limit=1").json()["crawls"] == newest


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"contact": "nobody"}, "body.contact"),
        ({"seeds": []}, "body"),
        ({"limits": {"pages": 0}}, "body.limits.pages"),
        ({"limits": {"pages": 10**30}}, "body.limits.pages"),
        ({"scope": {"hosts": ["not a host"]}}, "scope"),
        ({"seed_file": "missing.txt"}, "seed_file"),
        ({"exclusions_file": "missing.txt"}, "exclusions_file"),
        ({"exclusions_file": "../out.txt"}, "body.exclusions_file"),
    ],
)
def test_what_is_not_in_order_is_named(
    http: httpx.Client, members: dict[str, Any], field: str
) -> None:
    response = http.post("/crawls", json=crawl_of(**members))
    assert (response.status_code, response.json()["field"]) == (422, field)


def test_files_are_read_for_the_workers(
    http: httpx.Client, control: ControlStore, place: Path
) -> None:
    wanted = {"contact": CONTACT, "seed_file": "seeds.txt", "exclusions_file": "out.txt"}
    number = http.post("/crawls", json=wanted).json()["id"]
    assert control.files.exclusions(number) == "example.net\n"
    wait_until(lambda: control.crawl(number).has_all_seeds, 10)
    assert waiting_seeds(control, number) == {shard_of("example.org"): ["https://example.org/"]}
    told = http.get(f"/crawls/{number}").json()
    assert (told["seed_file_lines"], told["seed_file_refused"]) == (2, 1)
    assert "2 lines, of which 1 were refused" in told["notes"][0]["text"]


def test_a_seed_file_is_not_ended_by_seeds_that_come_beside_it(
    http: httpx.Client, control: ControlStore, place: Path
) -> None:
    late = place / "files" / "late.txt"
    late.touch()
    number = http.post("/crawls", json={"contact": CONTACT, "seed_file": "late.txt"}).json()["id"]
    late.unlink()
    response = http.post(f"/crawls/{number}/seeds?last=true", content=b"https://example.org/a")
    assert response.json()["accepted"] == 1
    wait_until(lambda: control.crawl(number).has_all_seeds, 10)
    assert control.crawl(number).seed_file_lines == 0


def test_a_request_may_be_packed(http: httpx.Client) -> None:
    body = gzip.compress(b'{"contact": "me@example.org", "seeds": ["https://example.org/"]}')
    response = http.post("/crawls", content=body, headers={"Content-Encoding": "gzip"})
    assert response.status_code == 201


# Seeds that follow


def test_seeds_of_any_number_follow_as_lines(http: httpx.Client, control: ControlStore) -> None:
    number = http.post("/crawls", json={"contact": CONTACT, "more_seeds": True}).json()["id"]
    assert "more seeds are awaited" in http.get(f"/crawls/{number}").json()["limited_by"]
    lines = "".join(f"https://www.site{count}.example/\n" for count in range(5000))
    first = http.post(
        f"/crawls/{number}/seeds",
        content=gzip.compress(f"{lines}nowhere\n".encode()),
        headers={"Content-Type": "text/plain", "Content-Encoding": "gzip"},
    )
    assert first.status_code == 202
    assert (first.json()["accepted"], first.json()["refused"]) == (5000, 1)
    assert first.json()["errors"][0]["line"] == 5001
    assert not control.crawl(number).has_all_seeds
    last = http.post(
        f"/crawls/{number}/seeds?last=true",
        content=b'{"url": "https://example.org/"}\n',
        headers={"Content-Type": "application/x-ndjson"},
    )
    assert last.json() == {"accepted": 1, "refused": 0, "errors": []}
    assert control.crawl(number).has_all_seeds
    found = waiting_seeds(control, number)
    assert sum(map(len, found.values())) == 5001
    assert "https://www.site7.example/" in found[shard_of("site7.example")]


def test_a_crawl_that_runs_takes_more(
    http: httpx.Client, control: ControlStore, crawl: int
) -> None:
    assert control.change_state(crawl, [CrawlState.STARTING], CrawlState.RUNNING, time.time())
    # As curl sends a file, without a content type.
    response = http.post(f"/crawls/{crawl}/seeds", content=b"https://example.net/")
    assert response.json()["accepted"] == 1
    assert waiting_seeds(control, crawl)[shard_of("example.net")][-1] == "https://example.net/"


def test_seeds_that_cannot_be_taken_are_refused(
    http: httpx.Client, control: ControlStore, crawl: int
) -> None:
    seeds = f"/crawls/{crawl}/seeds"
    assert http.post(seeds, json=SEEDS).status_code == 415
    assert http.post(seeds, content=b"x\ny\n").status_code == 422
    assert http.post("/crawls/999999/seeds", content=b"https://example.org/").status_code == 404
    http.post(f"/crawls/{crawl}/cancel")
    response = http.post(seeds, content=b"https://example.org/")
    assert (response.status_code, response.json()["state"]) == (409, "stopping")


def test_a_crawl_that_ends_while_seeds_come_says_which_lines_it_has(
    api: ApiServer, http: httpx.Client, control: ControlStore, crawl: int
) -> None:
    def lines() -> Iterator[bytes]:
        yield b"https://example.net/1\n"
        wait_until(lambda: "https://example.net/1" in str(waiting_seeds(control, crawl)), 10)
        http.post(f"/crawls/{crawl}/cancel")
        yield b"https://example.net/2\n"

    with httpx.Client(base_url=api.url, trust_env=False, timeout=15) as sender:
        response = sender.post(f"/crawls/{crawl}/seeds?last=true", content=lines())
    assert response.status_code == 409
    told = response.json()
    assert (told["accepted"], told["unqueued_lines"], told["next_line"]) == (1, [[2, 2]], 3)


# Dry run


def test_a_dry_run_says_what_would_be_done_and_why(http: httpx.Client) -> None:
    newest = http.get("/crawls?limit=1").json()["crawls"]
    response = http.post(
        "/crawls/dry-run",
        json=crawl_of(
            seeds=["https://example.org/"],
            exclusions_file="out.txt",
            scope={"within": "anywhere"},
            urls=["https://example.org/b?utm_source=x", "https://example.org/b", "x",
                  "https://www.example.net/"],
        ),
    )  # fmt: skip
    assert response.status_code == 200
    answer = response.json()
    assert "robots.txt" in answer["not_looked_at"]
    assert [(url["is_in"], url["duplicate_of"]) for url in answer["urls"]] == [
        (True, None),
        (True, 0),
        (False, None),
        (False, None),
    ]
    assert answer["urls"][0]["shard"] == shard_of("example.org")
    assert answer["urls"][3]["reason"] == "excluded: example.net"
    assert http.get("/crawls?limit=1").json()["crawls"] == newest


def test_a_dry_run_knows_what_the_operator_has_blocked(http: httpx.Client) -> None:
    assert http.put("/domains/blocked.example", json={"is_blocked": True}).status_code == 200
    urls = ["https://www.blocked.example/"]
    answer = http.post("/crawls/dry-run", json={"contact": CONTACT, "urls": urls}).json()
    assert answer["urls"][0]["reason"] == "blocked by the operator"
    http.put("/domains/blocked.example", json={})
    answer = http.post("/crawls/dry-run", json={"contact": CONTACT, "urls": urls}).json()
    assert answer["urls"][0]["is_in"]


# Looks


def test_crawls_are_listed_page_by_page_the_newest_first(http: httpx.Client) -> None:
    numbers = [http.post("/crawls", json=crawl_of()).json()["id"] for _ in range(5)]
    http.post(f"/crawls/{numbers[2]}/cancel")
    first = http.get("/crawls?limit=2").json()
    second = http.get("/crawls", params={"limit": 2, "cursor": first["next"]}).json()
    assert [crawl["id"] for crawl in first["crawls"] + second["crawls"]] == numbers[:0:-1]
    stopping = http.get("/crawls?state=stopping&limit=1").json()["crawls"]
    assert [crawl["id"] for crawl in stopping] == [numbers[2]]
    assert http.get("/crawls?cursor=x").status_code == 422
    assert http.get("/crawls?state=asleep").status_code == 422


def test_figures_of_all_shards_are_added_up(
    http: httpx.Client, control: ControlStore, state: str, crawl: int
) -> None:
    crawled(state, SHARDS, crawl, "two.example", "/", "/a", "/404")
    crawled(state, SHARDS, crawl, "one.example", "/", "/404", "/404/b", "/wait", "/fly")
    told = http.get(f"/crawls/{crawl}").json()
    assert told["urls"] | {"done": 3, "failed": 3, "queued": 1, "claimed": 1} == told["urls"]
    assert told["counters"]["pages"] == 6
    assert told["counters"]["bytes"] == 3000
    assert told["limited_by"] == "no worker with the stage crawl is running"
    (group,) = http.get(f"/crawls/{crawl}/errors").json()["errors"]
    assert (group["reason"], group["count"]) == ("http 404", 3)


def test_urls_of_a_state_are_listed_through_all_shards(
    http: httpx.Client, control: ControlStore, state: str, crawl: int
) -> None:
    expected = set()
    for domain in ("one.example", "two.example", "three.example", "four.example"):
        paths = [f"/404/{number}" for number in range(5)]
        crawled(state, SHARDS, crawl, domain, "/", *paths)
        expected |= {f"https://{domain}{path}" for path in paths}
    for limit in (1, 3, 7, 1000):
        assert _all_urls(http, crawl, limit) == expected
    row = http.get(f"/crawls/{crawl}/urls?state=failed&limit=1").json()["urls"][0]
    assert (row["state"], row["status"], row["reason"]) == ("failed", 404, "http 404")


def _all_urls(http: httpx.Client, crawl: int, limit: int) -> set[str]:
    found: list[str] = []
    params: dict[str, str | int] = {"state": "failed", "limit": limit}
    while True:
        page = http.get(f"/crawls/{crawl}/urls", params=params).json()
        assert len(page["urls"]) <= limit
        found += [row["url"] for row in page["urls"]]
        if page["next"] is None:
            assert len(found) == len(set(found))
            return set(found)
        params["cursor"] = page["next"]


def test_the_rate_is_known_at_the_second_look(
    http: httpx.Client, control: ControlStore, state: str, crawl: int
) -> None:
    assert http.get(f"/crawls/{crawl}").json()["pages_per_s"] is None
    crawled(state, SHARDS, crawl, "fast.example", *(f"/{number}" for number in range(20)))

    def rate() -> float | None:
        found: float | None = http.get(f"/crawls/{crawl}").json()["pages_per_s"]
        return found

    wait_until(lambda: rate() is not None, 10)
    assert (rate() or 0) > 0


def test_what_limits_a_crawl_follows_what_the_workers_do(
    http: httpx.Client, control: ControlStore, crawl: int
) -> None:
    def limit() -> str:
        text: str = http.get(f"/crawls/{crawl}").json()["limited_by"]
        return text

    assert limit() == "no worker with the stage crawl is running"
    control.join(Member("worker-1", 50), 60)
    try:
        assert "seeds are being taken" in limit()
        control.change_state(crawl, [CrawlState.STARTING], CrawlState.RUNNING, time.time())
        assert f"of {SHARDS} shards have no owner" in limit()
        control.note(crawl, "3 URLs were queued again", time.time())
        assert http.get(f"/crawls/{crawl}").json()["notes"][0]["text"] == "3 URLs were queued again"
    finally:
        control.leave("worker-1")


# Orders


def test_a_crawl_is_paused_and_goes_on(
    http: httpx.Client, control: ControlStore, crawl: int
) -> None:
    control.change_state(crawl, [CrawlState.STARTING], CrawlState.RUNNING, time.time())
    for _ in range(2):
        response = http.post(f"/crawls/{crawl}/pause")
        assert (response.status_code, response.json()["state"]) == (202, "paused")
    assert control.crawl(crawl).state is CrawlState.PAUSED
    for _ in range(2):
        response = http.post(f"/crawls/{crawl}/resume")
        assert (response.status_code, response.json()["state"]) == (202, "running")


def test_one_that_is_paused_before_its_seeds_were_taken_goes_on_starting(
    http: httpx.Client, control: ControlStore, crawl: int
) -> None:
    assert http.post(f"/crawls/{crawl}/pause").json()["state"] == "paused"
    assert http.post(f"/crawls/{crawl}/resume").json()["state"] == "starting"


@pytest.mark.parametrize("before", [CrawlState.STARTING, CrawlState.RUNNING, CrawlState.PAUSED])
def test_a_cancelled_crawl_says_what_is_in_flight_and_waits_for_a_worker(
    http: httpx.Client, control: ControlStore, state: str, crawl: int, before: CrawlState
) -> None:
    control.change_state(crawl, list(CrawlState), before, time.time())
    crawled(state, SHARDS, crawl, f"{before}.example", "/fly", "/wait", "/")
    for _ in range(2):
        response = http.post(f"/crawls/{crawl}/cancel")
        assert response.status_code == 202
        assert response.json() == {
            "id": crawl,
            "state": "stopping",
            "ends_as": "cancelled",
            "in_flight": 1,
            "queued": 1,
        }
    told = http.get(f"/crawls/{crawl}").json()
    assert "is running to end it" in told["limited_by"]
    assert (told["reason"], told["ends_as"]) == ("cancelled by the operator", "cancelled")


def test_one_that_has_ended_takes_no_orders(
    http: httpx.Client, control: ControlStore, crawl: int
) -> None:
    control.change_state(
        crawl, [CrawlState.STARTING], CrawlState.LIMIT_REACHED, time.time(), reason="limit: 1 page"
    )
    orders: list[Callable[[], httpx.Response]] = [
        lambda: http.post(f"/crawls/{crawl}/pause"),
        lambda: http.post(f"/crawls/{crawl}/resume"),
        lambda: http.post(f"/crawls/{crawl}/cancel"),
        lambda: http.post(f"/crawls/{crawl}/seeds", content=b"https://example.org/"),
        lambda: http.put(f"/crawls/{crawl}/domains/example.org", json={"delay_s": 5}),
        lambda: http.delete(f"/crawls/{crawl}/domains/example.org/queued"),
    ]
    for order in orders:
        response = order()
        assert (response.status_code, response.json()["state"]) == (409, "limit_reached")
    assert http.get(f"/crawls/{crawl}").json()["limited_by"] == "it has ended (limit: 1 page)"


def test_orders_for_a_domain_reach_the_store(
    http: httpx.Client, control: ControlStore, crawl: int
) -> None:
    own = http.put(f"/crawls/{crawl}/domains/Example.org", json={"delay_s": 5})
    assert own.json() == {
        "domain": "example.org",
        "delay_s": 5.0,
        "is_blocked": False,
        "is_paused": False,
    }
    assert http.put("/domains/example.org", json={"is_blocked": True}).status_code == 200
    rules = control.rules()
    assert DomainRule(crawl, "example.org", 5.0, False) in rules
    assert DomainRule(None, "example.org", None, True) in rules
    assert http.get(f"/crawls/{crawl}").json()["domain_rules"] == [own.json()]
    purge = http.delete(f"/crawls/{crawl}/domains/example.org/queued")
    assert purge.status_code == 202
    assert purge.json() == {"domain": "example.org", "shard": shard_of("example.org")}
    assert (crawl, "example.org") in [
        (order.crawl, order.domain) for order in control.purges(shard_of("example.org"))
    ]
    http.put("/domains/example.org", json={})


def test_a_seed_that_no_worker_would_fetch_starts_no_crawl(http: httpx.Client) -> None:
    for url in ("http://10.0.0.1/", "http://localhost:8000/"):
        response = http.post("/crawls", json=crawl_of(seeds=[*SEEDS, url]))
        assert response.status_code == 422
        [error] = response.json()["errors"]
        assert "private network" in error["detail"]
        assert error["index"] == len(SEEDS)


def test_an_order_changes_what_it_names_and_can_be_undone(
    http: httpx.Client, control: ControlStore, crawl: int
) -> None:
    path = f"/crawls/{crawl}/domains/undone.example"
    told = [
        http.patch(path, json=order).json()
        for order in ({"delay_s": 5}, {"is_paused": True}, {"is_blocked": True}, {"delay_s": None})
    ]
    assert [(one["delay_s"], one["is_paused"], one["is_blocked"]) for one in told] == [
        (5.0, False, False),
        (5.0, True, False),
        (5.0, True, True),
        (None, True, True),
    ]
    http.patch(path, json={"is_paused": False, "is_blocked": False})
    assert "undone.example" not in [rule.domain for rule in control.rules()]
    assert http.patch("/domains/undone.example", json={"is_paused": True}).status_code == 200
    assert "undone.example" in [rule["domain"] for rule in http.get("/domains").json()["rules"]]
    http.put("/domains/undone.example", json={})
    assert http.patch(path, json={"is_held": True}).status_code == 422


def test_what_waits_of_a_domain_is_purged_everywhere(
    http: httpx.Client, control: ControlStore, crawl: int
) -> None:
    answer = http.delete("/domains/everywhere.example/queued")
    assert answer.status_code == 202
    shard = shard_of("everywhere.example")
    found = {one.crawl for one in control.purges(shard) if one.domain == "everywhere.example"}
    assert {NO_CRAWL, crawl} <= found
    assert answer.json() == {
        "domain": "everywhere.example",
        "shard": shard,
        "crawls": len(found) - 1,
    }


def test_an_order_is_for_a_whole_registrable_domain(http: httpx.Client, crawl: int) -> None:
    for path in ("/domains/www.example.org", f"/crawls/{crawl}/domains/www.example.org"):
        response = http.put(path, json={"delay_s": 5})
        assert (response.status_code, response.json()["domain"]) == (422, "example.org")
    assert http.put("/domains/not%20one", json={}).status_code == 422
    assert http.put("/crawls/999999/domains/example.org", json={}).status_code == 404


def test_the_domains_with_most_urls_waiting_are_listed(
    http: httpx.Client, control: ControlStore, state: str, crawl: int
) -> None:
    for domain, number in (("many.example", 30), ("more.example", 40)):
        crawled(state, SHARDS, crawl, domain, *(f"/{count}/wait" for count in range(number)))
    http.put("/domains/more.example", json={"delay_s": 7})
    listed = http.get("/domains?limit=2").json()["domains"]
    assert [(domain["domain"], domain["queued"]) for domain in listed] == [
        ("more.example", 40),
        ("many.example", 30),
    ]
    assert [domain["delay_s"] for domain in listed] == [7.0, None]
    assert listed[0]["origins"][0]["origin"] == "https://more.example"


# Around it


def test_what_is_not_there_is_not_found(http: httpx.Client) -> None:
    for path in ("", "/errors", "/urls?state=failed"):
        assert http.get(f"/crawls/999999{path}").status_code == 404
    for action in ("pause", "resume", "cancel"):
        assert http.post(f"/crawls/999999/{action}").status_code == 404
    assert http.get(f"/crawls/{10**30}").status_code == 422
    assert http.get("/crawls/first").status_code == 404
    response = http.delete("/crawls")
    assert (response.status_code, response.headers["allow"]) == (405, "GET, POST")


def test_metrics_count_the_crawls_of_each_state(
    http: httpx.Client, control: ControlStore, crawl: int
) -> None:
    def states() -> dict[str, float]:
        return {
            sample.labels["state"]: sample.value
            for family in text_string_to_metric_families(http.get("/metrics").text)
            if family.name == "crawls"
            for sample in family.samples
        }

    before = states()
    assert set(before) == set(CrawlState)
    other = http.post("/crawls", json=crawl_of()).json()["id"]
    control.change_state(other, [CrawlState.STARTING], CrawlState.FAILED, time.time())
    control.change_state(crawl, [CrawlState.STARTING], CrawlState.LIMIT_REACHED, time.time())
    after = states()
    assert after["failed"] == before["failed"] + 1
    assert after["limit_reached"] == before["limit_reached"] + 1
    assert after["starting"] == before["starting"] - 1
    assert states() == after


@pytest.fixture(scope="module")
def locked(
    broker_process: BrokerServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ApiServer, dict[str, str]]]:
    """Two processes, with a key for each scope."""
    keys = {scope: new_key(scope, scope) for scope in ("ingest", "read", "admin")}
    settings = {
        "API_PROCESSES": "2",
        "API_KEYS": ",".join(entry for _, entry in keys.values()),
        "CRAWL_STATE": str(tmp_path_factory.mktemp("locked") / "state"),
    }
    with ApiServer(broker_process, settings=settings) as api:
        yield api, {scope: secret for scope, (secret, _) in keys.items()}
        assert "Traceback" not in api.log_text, api.log_text


def with_key(api: ApiServer, secret: str) -> httpx.Client:
    return httpx.Client(
        base_url=api.url, trust_env=False, timeout=15, headers={"X-API-Key": secret}
    )


def test_several_processes_share_the_crawls(locked: tuple[ApiServer, dict[str, str]]) -> None:
    api, secrets = locked
    headers = {"Idempotency-Key": "once"}
    numbers = set()
    for _ in range(10):
        # A connection each, so that both get some.
        with with_key(api, secrets["ingest"]) as http:
            response = http.post("/crawls", json=crawl_of(), headers=headers)
            numbers.add(response.headers["location"])
        with with_key(api, secrets["read"]) as http:
            assert http.get(response.headers["location"]).status_code == 200
    assert len(numbers) == 1


def test_each_scope_opens_its_own_routes(locked: tuple[ApiServer, dict[str, str]]) -> None:
    api, secrets = locked
    with with_key(api, secrets["ingest"]) as http:
        crawl = http.post("/crawls", json=crawl_of()).headers["location"]
    routes: list[tuple[str, Callable[[httpx.Client], httpx.Response]]] = [
        ("ingest", lambda http: http.post("/crawls", json=crawl_of())),
        ("ingest", lambda http: http.post(f"{crawl}/seeds", content=b"https://example.org/")),
        ("ingest", lambda http: http.post("/crawls/dry-run", json=crawl_of(urls=SEEDS))),
        ("read", lambda http: http.get(crawl)),
        ("read", lambda http: http.get("/domains")),
        ("admin", lambda http: http.post(f"{crawl}/pause")),
        ("admin", lambda http: http.post(f"{crawl}/resume")),
        ("admin", lambda http: http.put("/domains/example.org", json={})),
        ("admin", lambda http: http.put(f"{crawl}/domains/example.org", json={})),
        ("admin", lambda http: http.delete(f"{crawl}/domains/example.org/queued")),
        ("admin", lambda http: http.post(f"{crawl}/cancel")),
    ]
    for scope, ask in routes:
        for holder, secret in secrets.items():
            with with_key(api, secret) as http:
                response = ask(http)
            assert (response.status_code < 300) == (holder == scope), (scope, response.text)


def test_without_a_state_store_there_are_jobs_and_no_crawls(broker_process: BrokerServer) -> None:
    with (
        ApiServer(broker_process) as api,
        httpx.Client(base_url=api.url, trust_env=False, timeout=15) as http,
    ):
        assert http.post("/jobs/add", json={"a": 1, "b": 2}).status_code == 202
        assert "crawls{" not in http.get("/metrics").text
        for response in (
            http.post("/crawls", json=crawl_of()),
            http.get("/crawls"),
            http.get("/crawls/1"),
            http.get("/domains"),
        ):
            assert response.status_code == 501
            assert "CRAWL_STATE" in response.json()["detail"]


def test_a_state_store_that_cannot_be_used_ends_it_with_one_clear_line(
    broker_process: BrokerServer, tmp_path: Path
) -> None:
    (tmp_path / "control.db").write_text("something else, long enough to be no empty file")
    said = refusal(FAKTORY_URL=broker_process.url, CRAWL_STATE=str(tmp_path))
    assert "control.db" in said


def test_a_state_store_that_another_machine_uses_ends_it_with_one_clear_line(
    broker_process: BrokerServer, tmp_path: Path
) -> None:
    with beating(tmp_path, "boot of another machine"):
        said = refusal(FAKTORY_URL=broker_process.url, CRAWL_STATE=str(tmp_path), CRAWL_LEASE_S="1")
    assert "another machine" in said


@contextmanager
def held(state: str) -> Iterator[None]:
    """By somebody who writes, for too long."""
    if "://" not in state:
        with closing(sqlite3.connect(Path(state) / "control.db", isolation_level=None)) as file:
            file.execute("BEGIN IMMEDIATE")
            yield
            file.execute("ROLLBACK")
        return
    place = parse_place(state)
    with psycopg.connect(place.conninfo) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (place.lock_key("control"),))
        yield


def test_a_store_that_is_held_by_another_is_told_of_and_the_jobs_go_on(
    api: ApiServer, http: httpx.Client, state: str
) -> None:
    with held(state):
        with httpx.Client(base_url=api.url, trust_env=False, timeout=15) as other:
            response = other.post("/crawls", json=crawl_of())
        assert response.status_code == 503
        assert int(response.headers["retry-after"]) >= 1
        assert http.post("/jobs/add", json={"a": 1, "b": 2}).status_code == 202
    assert http.post("/crawls", json=crawl_of()).status_code == 201
