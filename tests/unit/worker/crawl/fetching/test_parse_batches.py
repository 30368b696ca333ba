"""Fetched pages are pushed together, and whoever waits hears when the broker has them."""

import asyncio
from collections.abc import Sequence

import pytest

from manyhands.shared.crawl.messages import BYTES_OF_JOB, PAGES_OF_JOB, FetchedPage
from manyhands.shared.jobs import Job
from manyhands.shared.tasks import Tasks
from manyhands.worker.crawl.fetching.gathering import MOST_BYTES
from manyhands.worker.crawl.fetching.parse_batches import PagePusher


def page(number: int, size: int = 10) -> FetchedPage:
    return FetchedPage(
        visit=f"visit-{number}",
        crawl=1,
        key="00" * 16,
        url=f"http://example.com/{number}",
        depth=0,
        status=200,
        content_type="text/html",
        robots_tag="",
        obeys_nofollow=True,
        is_truncated=False,
        fetched_at="2026-11-16T12:00:00Z",
        body="x" * size,
    )


class Broker:
    """State: what was pushed, a list for each push."""

    def __init__(self) -> None:
        self.pushes: list[list[Job]] = []
        self.came = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.error: Exception | None = None

    async def push(self, jobs: Sequence[Job]) -> None:
        if self.error is not None:
            raise self.error
        self.pushes.append(list(jobs))
        self.came.set()
        await self.may_answer.wait()

    def visits(self) -> list[list[list[str]]]:
        """By push and by job."""
        return [[[page[0] for page in job.args[1]] for job in jobs] for jobs in self.pushes]


def pusher(broker: Broker) -> PagePusher:
    return PagePusher(broker.push, lambda shard: f"crawl.tag.{shard:02}", Tasks("test"))


async def test_pages_that_come_together_are_one_job() -> None:
    broker = Broker()
    pages = pusher(broker)

    await asyncio.gather(pages.push(page(1), 7), pages.push(page(2), 8))

    assert broker.visits() == [[["visit-1", "visit-2"]]]
    ((job,),) = broker.pushes
    assert (job.jobtype, job.queue, job.args[0]) == ("parse_pages", "parse", "crawl.tag.07")


async def test_many_pages_are_several_jobs_of_one_push() -> None:
    broker = Broker()
    pages = pusher(broker)

    await asyncio.gather(*(pages.push(page(number), 0) for number in range(PAGES_OF_JOB + 1)))

    (jobs,) = broker.visits()
    assert [len(page_fetches) for page_fetches in jobs] == [PAGES_OF_JOB, 1]


async def test_large_pages_travel_alone() -> None:
    broker = Broker()
    pages = pusher(broker)
    sizes = [10, BYTES_OF_JOB + 1, BYTES_OF_JOB // 2, BYTES_OF_JOB // 2, 10]

    await asyncio.gather(*(pages.push(page(n, size), 0) for n, size in enumerate(sizes)))

    assert broker.visits() == [[["visit-0"], ["visit-1"], ["visit-2", "visit-3"], ["visit-4"]]]


async def test_a_push_is_bounded_in_bytes() -> None:
    broker = Broker()
    pages = pusher(broker)

    await asyncio.gather(*(pages.push(page(n, MOST_BYTES), 0) for n in range(2)))

    assert broker.visits() == [[["visit-0"]], [["visit-1"]]]


async def test_a_push_that_fails_fails_all_its_pages() -> None:
    broker = Broker()
    broker.error = ConnectionError("gone")
    pages = pusher(broker)

    told = await asyncio.gather(
        pages.push(page(1), 0), pages.push(page(2), 0), return_exceptions=True
    )

    assert list(told) == [broker.error, broker.error]
    broker.error = None
    await pages.push(page(3), 0)
    assert broker.visits() == [[["visit-3"]]]


@pytest.mark.parametrize("size", [0, 1])
async def test_a_page_alone_is_a_job(size: int) -> None:
    broker = Broker()
    await pusher(broker).push(page(1, size), 3)
    assert broker.visits() == [[["visit-1"]]]


async def test_how_long_the_oldest_push_has_waited_is_known() -> None:
    broker = Broker()
    broker.may_answer.clear()
    pages = pusher(broker)
    waiting = pages.push(page(1), 7)
    assert pages.waits_s() == 0
    await broker.came.wait()
    await asyncio.sleep(0.05)
    assert pages.waits_s() >= 0.04
    broker.may_answer.set()
    await waiting
    assert pages.waits_s() == 0
