"""What a load test of mixed traffic needs, as processes of this machine: the web, a broker, API,
worker that does everything, and Locust. Nobody is killed."""

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from devservers import ApiServer, BrokerServer
from devservers.processes import wait_until
from loadtest.lib.worker_service import start_worker
from loadtest.load import crawls, pages
from loadtest.load.crawls import CrawlVerdict, judge_crawls, read_crawl_answers
from loadtest.load.ledger import DIRECTORY_VARIABLE, Books, DoneTail, Outcome, read_answers
from loadtest.load.page_stand import ended_jobs, pages_to_ask_for, state_of_job
from loadtest.load.pages import PageVerdict, judge_pages, read_page_answers
from loadtest.load.stand import Locust, headless
from loadtest.load.verdict import Verdict, judge, unfinished
from loadtest.web.oracle import wanted_urls
from loadtest.web.synthetic_web import SyntheticWeb, WebSpec

# By kind of traffic: the file of its users, and their classes.
KINDS = {
    "add": ("jobs.py", ["SingleUser"]),
    "fetch": ("pages.py", ["OnePageUser", "PageListUser"]),
    "crawl": ("crawls.py", ["CrawlUser"]),
}
HANDLERS = (
    *("loadtest.load.handlers", "manyhands.worker.handlers.fetch"),
    *("manyhands.worker.handlers.crawl", "manyhands.worker.handlers.parse"),
)
STAGES = "add:1x100 fetch+crawl:1x200 parse:1x20"
LOOK_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class MixedVerdict:
    """None: that kind was not asked for."""

    add: Verdict | None
    fetch: PageVerdict | None
    crawl: CrawlVerdict | None

    def broken_promises(self) -> list[str]:
        told = (verdict for verdict in (self.add, self.fetch, self.crawl) if verdict is not None)
        return [promise for verdict in told for promise in verdict.broken_promises()]


@dataclass(slots=True)
class MixedStand:
    """State: what the worker's book said so far."""

    web: SyntheticWeb
    api: ApiServer
    directory: Path
    kinds: Sequence[str]
    books: Books
    tail: DoneTail

    def locust(self, users: int, seconds: int, results: Path) -> Locust:
        urls = sorted(wanted_urls(self.web.perfect_crawl()))
        half = len(urls) // 2
        (self.directory / "pages").write_text("\n".join(pages_to_ask_for(urls[:half])) + "\n")
        (self.directory / "seeds").write_text("\n".join(urls[half:]) + "\n")
        settings = {
            DIRECTORY_VARIABLE: str(self.directory),
            pages.PAGES_VARIABLE: str(self.directory / "pages"),
            pages.ANSWERS_VARIABLE: str(self._page_answers),
            crawls.SEEDS_VARIABLE: str(self.directory / "seeds"),
            crawls.ANSWERS_VARIABLE: str(self._crawl_answers),
        }
        files = [KINDS[kind][0] for kind in self.kinds]
        classes = [name for kind in self.kinds for name in KINDS[kind][1]]
        command = headless(files, self.api.url, users, seconds, results)
        return Locust([*command, *classes], seconds, self.directory, settings)

    def settled(self, standstill_s: float) -> MixedVerdict:
        """Once Locust has ended: wait until all that was accepted has ended, or nothing has for so
        long."""
        self.books.answers.extend(read_answers(self.directory))
        left = self.left()
        while left:
            before = left
            if not wait_until(lambda: self.left() < before, standstill_s):  # noqa: B023 - at once
                break
            time.sleep(LOOK_EVERY_S)
            left = self.left()
        return self._verdict()

    def left(self) -> int:
        """How much of what was accepted has not ended."""
        self.books.done.extend(self.tail.read())
        left = unfinished(self.books)
        if "fetch" in self.kinds:
            metrics = self._get("/metrics").text
            left += max(0, len(self._jids()) - ended_jobs(metrics))
        if "crawl" in self.kinds:
            left += sum(view["state"] not in crawls.ENDED for view in self._views().values())
        return left

    def _verdict(self) -> MixedVerdict:
        with httpx.Client(base_url=self.api.url, trust_env=False) as client:
            states = {jid: state_of_job(client, jid) for jid in self._jids()}
        views = self._views() if "crawl" in self.kinds else {}
        # After the API's answers: what is done by then was fetched before.
        visits = self.web.ledger()
        return MixedVerdict(
            add=judge(self.books) if "add" in self.kinds else None,
            fetch=(
                judge_pages(read_page_answers(self._page_answers), states, visits, [])
                if "fetch" in self.kinds
                else None
            ),
            crawl=(
                judge_crawls(read_crawl_answers(self._crawl_answers), views, visits)
                if "crawl" in self.kinds
                else None
            ),
        )

    def _jids(self) -> list[str]:
        if "fetch" not in self.kinds:
            return []
        answers = read_page_answers(self._page_answers)
        return [one.jid for one in answers if one.outcome is Outcome.QUEUED]

    def _views(self) -> dict[str, dict[str, Any]]:
        answers = read_crawl_answers(self._crawl_answers)
        numbers = [one.crawl for one in answers if one.outcome is Outcome.QUEUED]
        return {number: self._get(f"/crawls/{number}").json() for number in numbers}

    def _get(self, path: str) -> httpx.Response:
        return httpx.get(f"{self.api.url}{path}", trust_env=False, timeout=30).raise_for_status()

    @property
    def _page_answers(self) -> Path:
        return self.directory / "page-answers"

    @property
    def _crawl_answers(self) -> Path:
        return self.directory / "crawl-answers"


@contextmanager
def mixed_stand(
    sites: int, urls: int, answer_ms: float, kinds: Sequence[str]
) -> Iterator[MixedStand]:
    with ExitStack() as opened:
        directory = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        web = opened.enter_context(SyntheticWeb(WebSpec(sites, urls, latency_ms=answer_ms)))
        broker = opened.enter_context(BrokerServer())
        state = {"CRAWL_STATE": str(directory / "state")}
        api = opened.enter_context(ApiServer(broker, settings=state))
        settings = {
            "WORKER_HANDLERS": ",".join(HANDLERS),
            "WORKER_STAGES": STAGES,
            "FETCH_CONTACT": "loadtest@example.org",
            "FETCH_DELAY_S": "0",
            "SINKS": f"jsonl:{directory / 'records.ndjson'}",
            DIRECTORY_VARIABLE: str(directory),
            **state,
            **web.worker_settings,
        }
        worker = start_worker(broker.url, os.environ | settings, directory / "worker.log")
        opened.callback(worker.end)
        worker.wait_ready("worker", lambda: "Concurrency:" in worker.log_text())
        yield MixedStand(web, api, directory, kinds, Books([], []), DoneTail(directory))
