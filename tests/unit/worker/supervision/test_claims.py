"""What a service does and says about the queues fetch.NN, with a server that is a set of marks."""

import asyncio
from collections.abc import Iterable
from typing import cast

import pytest

from manyhands.shared.crawl.claim import SURE_AFTER_S, mark_job, mark_queue, marked_by
from manyhands.shared.errors import ConnectionLost
from manyhands.shared.jobs import Job
from manyhands.worker.service.link import StageReport
from manyhands.worker.supervision.claims import FetchQueues
from manyhands.worker.supervision.server_view import ServerView
from tests.support.virtual_time import run_in_virtual_time

FETCH = StageReport("fetch", ["fetch.00", "fetch.01"], 1, 5, "parse")
PARSE = StageReport("parse", ["parse"], 1, 5, "")
OURS, THEIRS = "aaaaaaaaaa", "bbbbbbbbbb"
NAMES = {"fetch.00", "parse"}


class FakeServer:
    """State: how many jobs are in which queue, and what was seen of it last."""

    address = "tcp://broker:7419"

    def __init__(self, *tags: str) -> None:
        self.sizes = {mark_queue(tag): 1 for tag in tags}
        self.marks: frozenset[str] = frozenset()
        self.is_lost = False

    async def look_at_sizes(self, names: Iterable[str]) -> bool:
        assert names
        self.marks = marked_by(self.sizes)
        return True

    async def push(self, job: Job) -> None:
        if self.is_lost:
            raise ConnectionLost("gone")
        self.sizes[job.queue] = self.sizes.get(job.queue, 0) + 1

    async def remove_queue(self, name: str) -> None:
        self.sizes.pop(name, None)


class Service:
    def __init__(self, server: FakeServer, store: str, *, is_named: bool) -> None:
        self.server = server
        self.said: list[str] = []
        self.queues = FetchQueues(
            cast("ServerView", server),
            lambda text, _level: self.said.append(text),
            is_named=is_named,
        )
        self.store = store

    def starts(self, *stages: StageReport, left_out: tuple[str, ...] = ()) -> "Service":
        self.queues.child_is_ready(stages or (FETCH, PARSE), self.store, left_out)
        return self

    async def looks(self) -> None:
        await self.server.look_at_sizes(NAMES)
        await self.queues.looked(NAMES)

    async def looks_for(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            await asyncio.sleep(1)
            await self.looks()


def test_a_store_has_the_queues_of_a_broker_that_is_free_after_one_look():
    async def run() -> None:
        server = FakeServer()
        service = Service(server, OURS, is_named=True).starts()
        assert not service.queues.may_run(FETCH)
        assert service.queues.may_run(PARSE)
        await service.looks()
        assert service.queues.may_run(FETCH)
        assert server.sizes == {mark_queue(OURS): 1}
        # Another service of the same store, or the same one after a restart.
        again = Service(server, OURS, is_named=True).starts()
        await again.looks()
        assert again.queues.may_run(FETCH)
        assert server.sizes == {mark_queue(OURS): 1}
        assert service.said == again.said == []

    run_in_virtual_time(run())


@pytest.mark.parametrize("store", [OURS, ""])
def test_a_service_that_names_fetch_ends_with_one_line_if_the_queues_are_anothers(store):
    async def run() -> None:
        service = Service(FakeServer(THEIRS), store, is_named=True).starts()
        await service.looks()
        assert not service.queues.refusal
        await service.looks_for(SURE_AFTER_S + 1)
        assert not service.queues.may_run(FETCH)
        assert THEIRS in service.queues.refusal
        assert (store or "CRAWL_STATE") in service.queues.refusal
        assert "manyhands state adopt" in service.queues.refusal
        assert "\n" not in service.queues.refusal
        assert service.said == []

    run_in_virtual_time(run())


@pytest.mark.parametrize(("store", "but"), [(OURS, "but fetch;"), ("", "but fetch and crawl;")])
def test_one_that_names_no_stage_runs_everything_else_and_says_so_in_one_line(store, but):
    async def run() -> None:
        left_out = () if store else ("crawl",)
        service = Service(FakeServer(THEIRS), store, is_named=False).starts(left_out=left_out)
        await service.looks_for(10)
        assert service.queues.may_run(PARSE)
        assert not service.queues.may_run(FETCH)
        assert not service.queues.refusal
        (line,) = service.said
        assert THEIRS in line
        assert but in line
        service.server.sizes.clear()
        await service.looks_for(10)
        assert service.queues.may_run(FETCH)
        assert len(service.said) == 2

    run_in_virtual_time(run())


def test_without_a_store_a_free_broker_is_served_and_not_marked():
    async def run() -> None:
        server = FakeServer()
        service = Service(server, "", is_named=False).starts(left_out=("crawl",))
        await service.looks_for(3)
        assert service.queues.may_run(FETCH)
        assert server.sizes == {}
        (line,) = service.said
        assert "everything but crawl" in line

    run_in_virtual_time(run())


def test_ones_own_handlers_need_no_claim():
    async def run() -> None:
        server = FakeServer(THEIRS)
        mine = StageReport("count", ["default"], 1, 5, "")
        service = Service(server, "", is_named=True).starts(mine)
        await service.looks_for(10)
        assert service.queues.may_run(mine)
        assert service.said == []
        assert not service.queues.refusal
        assert server.sizes == {mark_queue(THEIRS): 1}

    run_in_virtual_time(run())


def test_one_that_has_fetched_waits_when_the_queues_become_anothers_and_does_not_end():
    async def run() -> None:
        server = FakeServer()
        service = Service(server, OURS, is_named=True).starts()
        await service.looks()
        # FLUSH, and somebody else was faster.
        server.sizes = {mark_queue(THEIRS): 1}
        await service.looks_for(10)
        assert not service.queues.may_run(FETCH)
        assert not service.queues.refusal
        assert len(service.said) == 1

    run_in_virtual_time(run())


def test_after_a_flush_the_mark_is_renewed_with_the_next_look():
    async def run() -> None:
        server = FakeServer()
        service = Service(server, OURS, is_named=True).starts()
        await service.looks()
        server.sizes.clear()
        await service.looks()
        assert service.queues.may_run(FETCH)
        assert server.sizes == {mark_queue(OURS): 1}

    run_in_virtual_time(run())


def test_two_that_met_give_way_and_one_of_them_gets_it():
    async def run() -> None:
        server = FakeServer(OURS, THEIRS)
        services = [Service(server, tag, is_named=True).starts() for tag in (OURS, THEIRS)]
        for _ in range(20):
            for service in services:
                await service.looks()
            assert sum(service.queues.may_run(FETCH) for service in services) <= 1
            await asyncio.sleep(1)
        assert sum(service.queues.may_run(FETCH) for service in services) == 1

    run_in_virtual_time(run())


def test_services_of_one_store_that_start_at_once_do_not_refuse_each_other():
    """Also beside another store that asks for the broker at the same time."""

    async def run() -> None:
        server = FakeServer()
        holds = Service(server, OURS, is_named=True).starts()
        await holds.looks()
        # A contender of another store, between its push and its look.
        await server.push(mark_job(THEIRS, "another"))
        services = [Service(server, OURS, is_named=True).starts() for _ in range(2)]
        for service in services:
            await service.looks()
        assert mark_queue(OURS) in server.sizes, "one holds by it"
        await server.remove_queue(mark_queue(THEIRS))
        for _ in range(10):
            await asyncio.sleep(1)
            for service in (holds, *services):
                await service.looks()
                assert holds.queues.may_run(FETCH)
        assert all(service.queues.may_run(FETCH) for service in services)
        assert not any(service.queues.refusal for service in services)
        assert server.sizes == {mark_queue(OURS): 1}

    run_in_virtual_time(run())


def test_a_contender_that_is_killed_before_it_gives_way_does_not_block_those_who_hold():
    async def run() -> None:
        server = FakeServer()
        holds = Service(server, OURS, is_named=True).starts()
        await holds.looks()
        await server.push(mark_job(THEIRS, "killed"))
        await holds.looks_for(SURE_AFTER_S + 1)
        assert server.sizes == {mark_queue(OURS): 1}
        again = Service(server, OURS, is_named=True).starts()
        await again.looks()
        assert again.queues.may_run(FETCH)

    run_in_virtual_time(run())


def test_one_that_starts_beside_the_mark_of_a_killed_contender_waits_for_those_who_hold():
    async def run() -> None:
        server = FakeServer()
        holds = Service(server, OURS, is_named=True).starts()
        await holds.looks()
        await server.push(mark_job(THEIRS, "killed"))
        late = Service(server, OURS, is_named=True).starts()
        for _ in range(10):
            await asyncio.sleep(1)
            await late.looks()
            await holds.looks()
            assert holds.queues.may_run(FETCH)
        assert late.queues.may_run(FETCH)
        assert not late.queues.refusal

    run_in_virtual_time(run())


def test_the_mark_of_a_killed_contender_that_nobody_clears_is_named_with_what_to_do():
    async def run() -> None:
        service = Service(FakeServer(OURS, THEIRS), OURS, is_named=True).starts()
        await service.looks_for(15)
        assert THEIRS in service.queues.refusal
        assert "manyhands state adopt" in service.queues.refusal

    run_in_virtual_time(run())


def test_a_push_without_an_answer_is_tried_again():
    async def run() -> None:
        server = FakeServer()
        server.is_lost = True
        service = Service(server, OURS, is_named=True).starts()
        await service.looks()
        assert not service.queues.may_run(FETCH)
        server.is_lost = False
        await service.looks()
        assert service.queues.may_run(FETCH)

    run_in_virtual_time(run())
