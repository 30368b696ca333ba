"""A crawl that is brought to another store half-way, and to another number of shards, goes on there
and ends with the exact set."""

import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from devservers import BrokerServer
from loadtest.web.synthetic_web import SyntheticWeb, WebSpec
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.opening import whole_at
from manyhands.shared.crawl.store.whole.closing import CLOSED, Closed
from manyhands.shared.crawl.store.whole.protocol import facts_of
from tests.acceptance.scale import COPIED_HOSTS, COPIED_PAGES, COPIED_S
from tests.conftest import StartWorker
from tests.support.cli_command import RunningCli, run_cli
from tests.support.crawling import Crawling, in_flight_at_most
from tests.support.state_places import NewPlace
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(300 + 2 * COPIED_S)

SLOTS = 50


def is_arriving(place: str) -> bool:
    with closing(whole_at((place,))) as whole:
        tables = whole.look()
        return tables is not None and facts_of(tables).get(CLOSED) == Closed.ARRIVES


async def test_there_and_back_with_other_numbers_of_shards_and_killed_on_the_way(
    broker_process: BrokerServer,
    start_worker: StartWorker,
    new_place: NewPlace,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    """Pages wait for their parse when it is copied first, and are being fetched the second time."""
    spec = WebSpec(hosts=COPIED_HOSTS, pages=COPIED_PAGES, latency_ms=5)
    places = [new_place("sqlite"), new_place("postgres"), new_place("sqlite")]
    with SyntheticWeb(spec) as web:
        first = Crawling(places[0], web, shards=64)
        crawl = first.start()
        crawls = start_worker(broker_process.url, **first.settings(f"crawl:1x{SLOTS}"))
        parses = start_worker(broker_process.url, **first.settings("parse:1x20"))
        await first.has_pages(crawl, COPIED_PAGES // 4, COPIED_S)
        parses.terminate()
        await parses.ended()
        await eventually(lambda: first.counters(crawl)["parsing"])
        command = ("state", "copy", *places[:2], "--shards", "7")
        refused = run_cli(tmp_path, *command)
        assert refused.returncode == 1
        assert b"stop the workers first" in refused.stderr
        crawls.terminate()
        assert await crawls.ended() == 0
        in_parse = first.counters(crawl)["parsing"]
        first.close()

        with RunningCli(tmp_path, *command) as killed:
            await eventually(lambda: is_arriving(places[1]), COPIED_S)
            killed.process.kill()
            assert await killed.ended() == -signal.SIGKILL
        repeated = run_cli(tmp_path, *command)
        assert repeated.returncode == 0, repeated.stderr
        assert b"7 shards; 0 that were in flight are fetched again" in repeated.stderr

        second = Crawling(places[1], web, shards=7)
        assert second.counters(crawl)["parsing"] == in_parse > 0
        worker = start_worker(
            broker_process.url, **second.settings(f"crawl:2x{SLOTS // 2} parse:1x20")
        )
        await second.has_pages(crawl, COPIED_PAGES // 2, COPIED_S)
        assert second.pages_twice() == 0
        worker.signal(signal.SIGKILL)
        # As long as its leases last.
        back = ("state", "copy", *places[1:], "--shards", "64")
        await eventually(lambda: not second.control.members(), 20)
        second.close()
        moved = run_cli(tmp_path, *back)
        assert moved.returncode == 0, moved.stderr

        third = Crawling(places[2], web, shards=64)
        start_worker(broker_process.url, **third.settings(f"crawl:1x{SLOTS} parse:1x20"))
        ended = await third.ended(crawl, COPIED_S)
        assert ended.state is CrawlState.COMPLETED, ended
        assert third.coverage().is_exact, str(third.coverage())
        verdict = third.verdict(0.0, may_repeat=True)
        assert verdict.is_polite, str(verdict)
        record_property("pages", third.counters(crawl)["pages"])
        record_property("in parse when copied", in_parse)
        record_property("fetched twice", third.pages_twice())
        assert third.pages_twice() <= in_flight_at_most(SLOTS)
        third.close()
    sound = run_cli(tmp_path, "state", "check", places[2])
    assert sound.returncode == 0, sound.stderr
