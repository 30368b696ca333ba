"""What an outcome becomes on the wire: pushed before acknowledged, and nothing left hanging."""

from collections.abc import Sequence
from datetime import UTC, datetime
from math import inf
from typing import Any

import orjson
import pytest

from manyhands.shared.faktory.client import FaktoryVerbs
from manyhands.shared.faktory.lanes import CommandLanes
from manyhands.worker.jobs.outcomes import DONE, PUT_BACK, Defer, Drop, Failed, Retry
from manyhands.worker.source.results import Results
from manyhands.worker.testing import make_delivery
from tests.support.fake_transport import FakeDialer

UNTIL = datetime(2027, 1, 1, tzinfo=UTC)


class Wire(FaktoryVerbs):
    """Takes pushes, or refuses those at the given places of a batch."""

    def __init__(self, lanes: CommandLanes, events: list[str]) -> None:
        super().__init__(lanes)
        self.events = events
        self.pushed: list[dict[str, Any]] = []
        self.refused_at: set[int] = set()

    async def push_encoded(self, jobs: Sequence[bytes], *, timeout_s: float = 1) -> dict[str, str]:
        copies = [orjson.loads(job) for job in jobs]
        taken = [copy for at, copy in enumerate(copies) if at not in self.refused_at]
        self.pushed += taken
        self.events += ["push"] * len(taken)
        return {copy["jid"]: "no" for copy in copies if copy not in taken}


class Recorded(Results):
    def __init__(self, lanes: CommandLanes, wire: Wire) -> None:
        super().__init__(lanes, wire, lambda: None)
        self.events = wire.events

    def ack(self, jid: str) -> None:
        self.events.append(f"ack {jid}")

    def fail(self, jid: str, failed: Failed, reserved_until: float = inf) -> None:
        self.events.append(f"fail {jid} {failed.error_type}")


class Bench:
    def __init__(self) -> None:
        self.events: list[str] = []
        lanes = CommandLanes(FakeDialer(), 1)
        self.wire = Wire(lanes, self.events)
        self.results = Recorded(lanes, self.wire)


@pytest.fixture
async def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize("outcome", [DONE, Drop("nothing to do")])
async def test_what_is_done_is_acknowledged_with_its_copies(bench, outcome):
    delivery = make_delivery(jid="job-first")
    delivery.copies = [make_delivery(jid="job-copy1"), make_delivery(jid="job-copy2")]
    await bench.results.settle(delivery, outcome)
    assert bench.events == ["ack job-first", "ack job-copy1", "ack job-copy2"]


async def test_what_failed_is_failed_and_its_copies_are_acknowledged(bench):
    delivery = make_delivery(jid="job-first")
    delivery.copies = [make_delivery(jid="job-copy1")]
    await bench.results.settle(delivery, Failed("E", "no"))
    assert bench.events == ["fail job-first E", "ack job-copy1"]


@pytest.mark.parametrize("outcome", [PUT_BACK, Defer(UNTIL), Retry(5)])
async def test_a_fresh_copy_is_queued_before_the_old_one_is_acknowledged(bench, outcome):
    await bench.results.settle(make_delivery(jid="job-first"), outcome)
    assert bench.events == ["push", "ack job-first"]
    assert bench.wire.pushed[0]["jid"] != "job-first"
    assert bench.wire.pushed[0]["custom"]["mh"]["id"] == "job-first"


async def test_a_retry_without_retries_left_is_the_servers_to_decide(bench):
    await bench.results.settle(make_delivery(jid="job-first", retry=0), Retry(5))
    assert bench.events == ["fail job-first Retry"]


async def test_a_copy_that_is_refused_fails_the_job(bench):
    bench.wire.refused_at = {0}
    await bench.results.settle(make_delivery(jid="job-first"), PUT_BACK)
    assert bench.events == ["fail job-first ServerError"]


async def test_a_batch_that_is_refused_in_part_leaves_no_taken_copy_beside_its_job(bench):
    """Else that job runs twice: now by its copy, and again when its reservation ends."""
    bench.wire.refused_at = {1}
    held = [make_delivery(jid=f"job-held{number}") for number in range(3)]
    await bench.results.put_back(held)
    assert [copy["custom"]["mh"]["id"] for copy in bench.wire.pushed] == ["job-held0", "job-held2"]
    assert {"ack job-held0", "ack job-held2"} <= set(bench.events)
    assert "ack job-held1" not in bench.events
