"""Jobs of several pages go to the broker together, and each of them hears of its own."""

import asyncio
from collections.abc import Sequence

import pytest

from manyhands.shared.errors import ServerError
from manyhands.shared.jobs import Job
from manyhands.shared.tasks import Tasks
from manyhands.worker.crawl.fetching.gathered_push import GatheredPush
from manyhands.worker.crawl.fetching.gathering import GATHER_S, MOST_BYTES
from tests.support.virtual_time import run_in_virtual_time, turns


class Broker:
    """State: the texts of each push, and what it refuses."""

    def __init__(self) -> None:
        self.pushed: list[list[str]] = []
        self.refused = ""

    async def push(self, jobs: Sequence[Job]) -> None:
        texts = [job.args[0] for job in jobs]
        if self.refused in texts:
            raise ServerError("ERR", f"refused: {self.refused}")
        self.pushed.append(texts)


def job(text: str) -> Job:
    return Job(jobtype="parse", args=[text])


def test_what_comes_within_a_moment_is_one_push():
    async def run() -> None:
        broker = Broker()
        gathered = GatheredPush(broker.push, Tasks("test"))
        pushes = [asyncio.create_task(gathered.push([job(text)])) for text in "abc"]
        await turns()
        assert broker.pushed == []
        await asyncio.gather(*pushes)
        assert asyncio.get_running_loop().time() == pytest.approx(GATHER_S)
        await gathered.push([job("d"), job("e")])
        assert broker.pushed == [["a", "b", "c"], ["d", "e"]]

    run_in_virtual_time(run())


def test_a_job_that_is_refused_fails_alone():
    async def run() -> None:
        broker = Broker()
        broker.refused = "b"
        gathered = GatheredPush(broker.push, Tasks("test"))
        pushes = (gathered.push([job(text)]) for text in "abc")
        results = await asyncio.gather(*pushes, return_exceptions=True)
        assert [type(result) for result in results] == [type(None), ServerError, type(None)]
        assert sorted(broker.pushed) == [["a"], ["c"]]

    run_in_virtual_time(run())


def test_many_bytes_do_not_wait():
    async def run() -> None:
        broker = Broker()
        gathered = GatheredPush(broker.push, Tasks("test"))
        large = "x" * (MOST_BYTES // 2)
        await asyncio.gather(gathered.push([job(large)]), gathered.push([job(large)]))
        assert asyncio.get_running_loop().time() == 0
        assert broker.pushed == [[large, large]]

    run_in_virtual_time(run())
