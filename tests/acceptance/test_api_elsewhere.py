"""An API and workers that share a database and a broker, and no file: as on different machines."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from devservers import BrokerServer, PostgresServer
from devservers.api import ApiServer
from loadtest.web.synthetic_web import SyntheticWeb, WebSpec, host_name
from manyhands.shared.crawl.spec import CrawlSpec, PolitenessSpec, ScopeSpec
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.model import NewCrawl
from manyhands.shared.crawl.store.opening import whole_at
from tests.conftest import StartWorker
from tests.support.crawling import CONTACT, Crawling, new_schema
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(240)

HOSTS, PAGES = 8, 200
WEB = WebSpec(hosts=HOSTS, pages=PAGES, latency_ms=5)
EXCLUDED = 3
LINES = 100_000
# They need a sink that the API can read back.
FROM_A_SINK = {("GET", f"/crawls/{{crawl}}/{what}") for what in ("pages", "links")}


class Client:
    """Of the API. State: the routes that were asked, as the service names them."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.asked: set[tuple[str, str]] = set()

    def ask(self, method: str, route: str, more: str = "", **names: Any) -> Any:
        """`names` replace those in the route; others are for httpx."""
        self.asked.add((method, route))
        path = route.format(**names)
        body = {name: names[name] for name in ("json", "content") if name in names}
        answer = httpx.request(
            method, f"{self._url}{path}{more}", **body, trust_env=False, timeout=30
        )
        assert answer.is_success, f"{method} {path}: {answer.text}"
        return answer.json()

    def routes(self) -> set[tuple[str, str]]:
        """All that are about crawls and domains."""
        paths = httpx.get(f"{self._url}/openapi.json", trust_env=False).json()["paths"]
        return {
            (method.upper(), path)
            for path, methods in paths.items()
            if path.startswith(("/crawls", "/domains"))
            for method in methods
        }


@pytest.fixture
def state_place(postgres: PostgresServer) -> str:
    return new_schema(postgres)


@pytest.fixture
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """On the machine of the API."""
    return tmp_path_factory.mktemp("files-of-the-api")


@pytest.fixture
def api(broker_process: BrokerServer, crawling: Crawling, files: Path) -> Iterator[ApiServer]:
    settings = {
        "CRAWL_STATE": crawling.place,
        "CRAWL_SHARDS": str(crawling.shards),
        "CRAWL_FILES": str(files),
    }
    with ApiServer(broker_process, settings=settings) as api:
        yield api
        assert "Traceback" not in api.log_text, api.log_text


async def test_all_that_can_be_done_with_crawls_needs_no_file_of_the_workers(
    broker_process: BrokerServer,
    start_worker: StartWorker,
    crawling: Crawling,
    api: ApiServer,
    files: Path,
    web: SyntheticWeb,
) -> None:
    client = Client(api.url)
    excluded = host_name(EXCLUDED)
    (files / "seeds.txt").write_text("\n".join(["# front pages", "nowhere", *web.seeds[1:]]))
    (files / "out.txt").write_text(f"{excluded}  # ours\n")
    wanted = {
        "contact": CONTACT,
        "scope": {"max_depth": 1000},
        "politeness": {"delay_s": 0},
        "seed_file": "seeds.txt",
        "exclusions_file": "out.txt",
    }
    judged = client.ask(
        "POST", "/crawls/dry-run", json=wanted | {"seeds": web.seeds, "urls": web.seeds}
    )
    assert [url["is_in"] for url in judged["urls"]].count(False) == 1
    crawl = client.ask("POST", "/crawls", json=wanted)["id"]
    await eventually(lambda: crawling.crawl(crawl).has_all_seeds)
    seeds = "".join(f"{seed}\n" for seed in web.seeds[:1])
    answer = client.ask("POST", "/crawls/{crawl}/seeds", crawl=crawl, content=seeds)
    assert answer["accepted"] == 1
    # What a worker reads of it now, it has from the database.
    shutil.rmtree(files)
    assert "no worker" in client.ask("GET", "/crawls/{crawl}", crawl=crawl)["limited_by"]
    for change in ("pause", "resume"):
        client.ask("POST", f"/crawls/{{crawl}}/{change}", crawl=crawl)
    start_worker(broker_process.url, **crawling.settings("crawl:1x50 parse:1x20"))

    await crawling.ended(crawl)

    told = client.ask("GET", "/crawls/{crawl}", crawl=crawl)
    assert told["state"] == "completed"
    assert (told["seed_file_lines"], told["seed_file_refused"]) == (len(web.seeds) + 1, 1)
    visited = {visit.url for visit in web.ledger() if visit.status == 200 and not visit.is_robots}
    must = {
        url
        for url, expected in web.perfect_crawl().items()
        if expected.verdict == "must" and expected.ends == "done" and f"//{excluded}:" not in url
    }
    assert must <= visited
    assert not any(f"//{excluded}:" in visit.url for visit in web.ledger())
    done = client.ask("GET", "/crawls/{crawl}/urls", "?state=done&limit=1000", crawl=crawl)["urls"]
    assert len(done) == told["urls"]["done"] >= len(must)
    errors = client.ask("GET", "/crawls/{crawl}/errors", crawl=crawl)["errors"]
    assert sum(error["count"] for error in errors) >= told["urls"]["failed"]
    await orders_are_carried_out(client, crawling)
    assert client.asked == client.routes() - FROM_A_SINK


async def orders_are_carried_out(client: Client, crawling: Crawling) -> None:
    """For a crawl whose one domain lets it fetch a page an hour."""
    seed = crawling.seeds[0]
    domain = host_name(0).partition(".")[2]
    client.ask("PUT", "/domains/{domain}", domain=domain, json={"delay_s": 3600})
    more = {"contact": CONTACT, "more_seeds": True}
    crawl = client.ask("POST", "/crawls", json=more)["id"]
    rule = client.ask(
        "PUT", "/crawls/{crawl}/domains/{domain}", crawl=crawl, domain=domain, json={"delay_s": 1e4}
    )
    assert rule["delay_s"] == 1e4
    resumed = {"is_paused": False}
    rule = client.ask("PATCH", "/domains/{domain}", domain=domain, json=resumed)
    assert rule["delay_s"] == 3600
    client.ask(
        "PATCH", "/crawls/{crawl}/domains/{domain}", crawl=crawl, domain=domain, json=resumed
    )
    lines = "".join(f"{seed}{number}\n" for number in range(50))
    client.ask("POST", "/crawls/{crawl}/seeds", "?last=true", crawl=crawl, content=lines)

    def queued() -> int:
        counted: int = client.ask("GET", "/crawls/{crawl}", crawl=crawl)["urls"]["queued"]
        return counted

    await eventually(lambda: queued() > 40)
    waiting = client.ask("GET", "/domains")["domains"]
    assert [one["domain"] for one in waiting] == [domain]
    client.ask("DELETE", "/domains/{domain}/queued", domain=domain)
    client.ask("DELETE", "/crawls/{crawl}/domains/{domain}/queued", crawl=crawl, domain=domain)
    await eventually(lambda: queued() == 0)
    client.ask("POST", "/crawls/{crawl}/cancel", crawl=crawl)
    await crawling.ended(crawl)
    listed = client.ask("GET", "/crawls")["crawls"]
    assert [one["state"] for one in listed] == ["cancelled", "completed"]


async def test_a_seed_file_is_gone_on_with_where_an_api_was_killed(
    crawling: Crawling, api: ApiServer, files: Path
) -> None:
    urls = [f"https://www.site{number}.example/" for number in range(LINES)]
    (files / "seeds.txt").write_text("".join(f"{url}\n" for url in urls))
    wanted = {"contact": CONTACT, "seed_file": "seeds.txt"}
    crawl = Client(api.url).ask("POST", "/crawls", json=wanted)["id"]
    await eventually(lambda: crawling.crawl(crawl).seed_file_lines > 0)
    api.kill()
    read = crawling.crawl(crawl)
    assert 0 < read.seed_file_lines < LINES
    assert not read.has_all_seeds
    api.start()
    client = Client(api.url)
    told = client.ask("GET", "/crawls/{crawl}", crawl=crawl)["limited_by"]
    assert f"the seed file is being read: {read.seed_file_lines} lines so far" in told

    await eventually(lambda: crawling.crawl(crawl).has_all_seeds, 60)

    told = client.ask("GET", "/crawls/{crawl}", crawl=crawl)
    assert (told["seed_file_lines"], told["seed_file_refused"]) == (LINES, 0)
    stored = [
        url
        for shard in range(crawling.shards)
        for batch in crawling.control.seeds(shard, LINES)
        for url in batch.urls
    ]
    # What was stored was stored once.
    assert sorted(stored) == sorted(urls)


async def test_a_crawl_of_an_earlier_release_is_read_by_its_workers(
    broker_process: BrokerServer,
    start_worker: StartWorker,
    crawling: Crawling,
    web: SyntheticWeb,
    tmp_path: Path,
) -> None:
    excluded = host_name(EXCLUDED)
    files = tmp_path / "files-of-the-workers"
    files.mkdir()
    (files / "seeds.txt").write_text("\n".join([*web.seeds, "nowhere"]))
    (files / "out.txt").write_text(excluded)
    spec = CrawlSpec(
        contact=CONTACT,
        scope=ScopeSpec(within="seeds"),
        politeness=PolitenessSpec(delay_s=0),
        seed_file="seeds.txt",
        exclusions_file="out.txt",
    )
    crawl, _ = crawling.control.create_crawl(NewCrawl(spec), 1.0)
    with closing(whole_at((crawling.place,))) as whole:
        _, tables = whole.open_control()
        with tables.transaction():
            # The earlier release has left no such record.
            tables.run("DELETE FROM @seed_files")
    start_worker(
        broker_process.url, **crawling.settings("crawl:1x50 parse:1x20", CRAWL_FILES=str(files))
    )

    ended = await crawling.ended(crawl.id)

    assert (ended.state, ended.seed_file_lines) == (CrawlState.COMPLETED, HOSTS + 1)
    visited = {visit.url for visit in web.ledger() if not visit.is_robots and visit.status == 200}
    assert visited == {seed for seed in web.seeds if f"//{excluded}:" not in seed}
    assert any(
        "1 lines of the seed file" in text for _, text in crawling.control.notes(crawl.id, 9)
    )
