"""The wall clock is set back and forth under real processes: nothing in hand is delayed, expires or
runs twice, and a crawl comes to its end as if nothing had been."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from devservers import BrokerServer, SettableClock
from loadtest.web.synthetic_web import SyntheticWeb, WebSpec
from manyhands.shared.crawl.spec import LimitSpec
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.faktory.client import Client
from manyhands.shared.faktory.handshake import parse_url
from manyhands.shared.jobs import Job, utc_now
from tests.conftest import StartWorker
from tests.support.crawling import Crawling
from tests.support.ledger import Ledger
from tests.support.waiting import eventually

pytestmark = [pytest.mark.faketime, pytest.mark.timeout(150)]

STEPS_S = (-3600, 7200, -600)
QUICK = 40
DELAY_S = 0.2


@pytest.fixture
def clock(tmp_path: Path) -> SettableClock:
    return SettableClock(tmp_path / "clock")


@pytest.fixture
def broker(clock: SettableClock) -> Iterator[BrokerServer]:
    with BrokerServer(settings=clock.settings) as broker:
        yield broker


def ended(ledger: Ledger) -> Counter[str]:
    return Counter(entry.id for entry in ledger.entries if entry.note == "ended")


def all_but_long_ones_ended(ledger: Ledger, pushed: set[str], long: list[Job]) -> bool:
    return pushed - {job.jid for job in long} <= ended(ledger).keys()


async def test_jobs_in_hand_do_not_notice_that_the_clock_is_set(
    broker: BrokerServer,
    clock: SettableClock,
    start_worker: StartWorker,
    ledger: Ledger,
    queue: str,
) -> None:
    async with Client(parse_url(broker.url)) as client:
        start_worker(broker.url, WORKER_QUEUES=queue, WORKER_CONCURRENCY="20", **clock.settings)
        long = [Job(jobtype="sleepy", args=[12], queue=queue) for _ in range(6)]
        due_at = utc_now() + timedelta(seconds=1800)
        scheduled = Job(jobtype="sleepy", args=[0], queue=queue, at=due_at)
        await client.push_bulk([*long, scheduled])
        await eventually(lambda: len(ledger.entries) == len(long), 40)
        pushed = {job.jid for job in long}

        for step_s in STEPS_S:
            waiting = asyncio.create_task(client.fetch(["nobody-pushes-here"]))
            await asyncio.sleep(0.3)
            clock.step(step_s)
            quick = [Job(jobtype="sleepy", args=[0.05], queue=queue) for _ in range(QUICK)]
            await client.push_bulk(quick)
            pushed |= {job.jid for job in quick}
            async with asyncio.timeout(15):
                assert await waiting is None
            if clock.ahead_s > 1800:
                pushed.add(scheduled.jid)
            await eventually(partial(all_but_long_ones_ended, ledger, pushed, long), 15)
            assert (scheduled.jid in ended(ledger)) == (scheduled.jid in pushed)

        await eventually(lambda: ended(ledger).keys() == pushed, 30)
        assert set(ended(ledger).values()) == {1}, "a job ran twice"
        info = (await client.info())["faktory"]
        assert info["total_failures"] == 0
        assert info["total_processed"] == len(pushed)
        assert info["tasks"]["Busy"] == {"size": 0, "reaped": 0}
        assert info["tasks"]["Workers"]["reaped"] == 0
    assert "the clock was set" in broker.log_text


async def test_a_crawl_goes_on_politely_to_its_end_while_the_clock_is_set(
    broker: BrokerServer, clock: SettableClock, start_worker: StartWorker, tmp_path: Path
) -> None:
    with SyntheticWeb(WebSpec(hosts=12, pages=240)) as web:
        crawling = Crawling(tmp_path / "state", web, shards=4)
        crawl = crawling.start(delay_s=DELAY_S, limits=LimitSpec(duration_s=600))
        # A lease that is lost, because the machine is busy, would fetch pages again.
        start_worker(broker.url, **crawling.settings(CRAWL_LEASE_S="20"), **clock.settings)
        for number, step_s in enumerate(STEPS_S, start=1):
            await crawling.has_pages(crawl, 50 * number)
            clock.step(step_s)

        ended = await crawling.ended(crawl)

        assert ended.state is CrawlState.COMPLETED, ended.reason
        assert crawling.coverage().is_exact, str(crawling.coverage())
        verdict = crawling.verdict(DELAY_S)
        assert verdict.is_polite, str(verdict)
        crawling.close()
