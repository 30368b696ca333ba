"""What a load test of pages needs: one host with the web, the servers, the API and Locust, and
worker hosts, of which one after the other is killed and started again."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from devservers import ApiServer
from devservers.processes import Child, wait_until
from loadtest.load.ledger import Outcome
from loadtest.load.pages import (
    ANSWERS_VARIABLE,
    LOST,
    PAGES_VARIABLE,
    PageAnswer,
    PageVerdict,
    judge_pages,
    read_page_answers,
)
from loadtest.load.stand import Locust, headless
from loadtest.web.oracle import wanted_urls
from loadtest.web.server_host import ServerHost, network_of, server_host
from loadtest.web.synthetic_web import WebSpec

WORKERS = ("worker1", "worker2")
STAGES = "fetch:1x50 parse:1x20"
LEASE_S = 5
# The next owner of a shard waits so long where one that died may have requests open.
FETCH_TIMEOUT_S = 5
# Of each so many pages one has an address that nobody may connect to: its job becomes a dead one.
FORBIDDEN_EVERY = 20
NOT_FOUND = 404
# In the API's figures: how many jobs there are by the state of their URL, and those that are over.
JOBS = "fetch_jobs"
ENDED = ("done", "failed", "disallowed", "skipped")


@dataclass(slots=True)
class PageStand:
    """State: the workers that run, by host, and when one was killed, by the clock of the web."""

    servers: ServerHost
    api: ApiServer
    directory: Path
    pages: Sequence[str]
    workers: dict[str, Child] = field(default_factory=dict)
    kills_ns: list[int] = field(default_factory=list)

    def start_worker(self, host: str) -> None:
        settings = {
            "WORKER_HANDLERS": "manyhands.worker.handlers.fetch,manyhands.worker.handlers.parse",
            "WORKER_STAGES": STAGES,
            "CRAWL_STATE": self.servers.postgres_url,
            "CRAWL_LEASE_S": str(LEASE_S),
            "FETCH_CONTACT": "loadtest@example.org",
            "FETCH_DELAY_S": "0",
            "FETCH_TIMEOUT_S": str(FETCH_TIMEOUT_S),
            "SINKS": f"jsonl:{self.directory / host}.ndjson",
        }
        log = self.directory / f"{host}.log"
        self.workers[host] = self.servers.start_worker(host, settings, log)

    def kill_worker(self) -> None:
        """kill -9 all processes of the host whose turn it is, and start them again."""
        host = WORKERS[len(self.kills_ns) % len(WORKERS)]
        self.kills_ns.append(self.servers.web.counts().now_ns)
        self.workers[host].kill_all()
        self.start_worker(host)

    def locust(self, users: int, seconds: int, results: Path) -> Locust:
        asked = self.directory / "pages"
        asked.write_text("".join(f"{url}\n" for url in self.pages))
        settings = {PAGES_VARIABLE: str(asked), ANSWERS_VARIABLE: str(self._answers)}
        command = headless(["pages.py"], self.api.url, users, seconds, results)
        return Locust(command, seconds, self.directory, settings)

    def answers(self) -> list[PageAnswer]:
        return read_page_answers(self._answers)

    def ended(self) -> int:
        """How many jobs are done or dead, as the API counts them."""
        text = httpx.get(f"{self.api.url}/metrics", trust_env=False).raise_for_status().text
        return ended_jobs(text)

    def has_ended(self, jobs: int) -> bool:
        return self.ended() >= jobs

    def verdict(self, states: Mapping[str, str]) -> PageVerdict:
        return judge_pages(self.answers(), states, self.servers.web.ledger(), self.kills_ns)

    def settled(self, standstill_s: float) -> dict[str, str]:
        """Once Locust has ended: wait until as many jobs have ended as were accepted, or none has
        for so long; what the API says of each."""
        accepted, ended = self.accepted(), 0
        while ended < len(accepted) and wait_until(
            partial(self.has_ended, ended + 1), standstill_s
        ):
            ended = self.ended()
        with httpx.Client(base_url=self.api.url, trust_env=False) as client:
            return {jid: state_of_job(client, jid) for jid in accepted}

    def accepted(self) -> list[str]:
        """The jids."""
        return [one.jid for one in self.answers() if one.outcome is Outcome.QUEUED]

    @property
    def _answers(self) -> Path:
        return self.directory / "answers"


def ended_jobs(metrics: str) -> int:
    found = 0.0
    for family in text_string_to_metric_families(metrics):
        if family.name.endswith(JOBS):
            found += sum(one.value for one in family.samples if one.labels["state"] in ENDED)
    return round(found)


def state_of_job(client: httpx.Client, jid: str) -> str:
    answer = client.get(f"/jobs/{jid}")
    if answer.status_code == NOT_FOUND:
        return LOST
    return str(answer.raise_for_status().json()["state"])


@contextmanager
def page_stand(sites: int, pages: int, answer_ms: float) -> Iterator[PageStand]:
    """With a worker on each host; the calling thread is on the server host meanwhile."""
    spec = WebSpec(hosts=sites, pages=pages, latency_ms=answer_ms, is_on_network=True)
    with ExitStack() as opened:
        network = opened.enter_context(network_of(WORKERS))
        servers = opened.enter_context(server_host(network, spec))
        settings = {"CRAWL_STATE": servers.postgres.url, "API_KEYS": "none"}
        api = opened.enter_context(ApiServer(servers.broker, settings=settings))
        directory = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        asked_for = pages_to_ask_for(sorted(wanted_urls(servers.web.perfect_crawl())))
        stand = PageStand(servers, api, directory, asked_for)
        for host in WORKERS:
            stand.start_worker(host)
            opened.callback(partial(_kill, stand, host))
        yield stand


def _kill(stand: PageStand, host: str) -> None:
    stand.workers[host].kill_all()


def pages_to_ask_for(urls: Sequence[str]) -> list[str]:
    """With addresses among them that nobody may connect to."""
    asked_for: list[str] = []
    for number, url in enumerate(urls):
        asked_for.append(url)
        if number % FORBIDDEN_EVERY == 0:
            block, last = divmod(number // FORBIDDEN_EVERY, 250)
            asked_for.append(f"http://192.168.{block}.{last + 1}/")
    return asked_for
