"""What is put to CloudWatch, and what becomes of it while CloudWatch is away."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from manyhands.shared.errors import ConfigError, ManyhandsError
from manyhands.worker.aws.asking import NoAnswer
from manyhands.worker.supervision import cloudwatch_put
from manyhands.worker.supervision.cloudwatch_put import CloudWatch, Putting
from manyhands.worker.supervision.metric_data import (
    MOST_IN_REQUEST,
    Point,
    Refusal,
    points_of,
    refusal_of,
    request_body,
)
from manyhands.worker.supervision.stage_summary import StageSummary
from tests.support.aws_server import Asked, AwsServer, points_in, refusal
from tests.support.service_status import child, service, stage, turn
from tests.support.waiting import eventually

AT = 1_700_000_000.7
STATUS = service(
    child("fetch-0", stages=[stage("fetch", "fetch.00")], turns=[turn("fetch", 20)]),
    child("other-0", stages=[stage("fetch", "fetch.00")], turns=[turn("fetch", 30)]),
    queues={"fetch.00": 7},
)
ENV = {"AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}


def summary(name: str, active: int, depth: int | None) -> StageSummary:
    return StageSummary(name, "any", active, 100, 1.0, depth, None)


def test_a_stage_has_two_points_over_all_its_processes():
    found = points_of([summary("fetch", 3, 9), summary("fetch", 4, 9), summary("parse", 0, 1)], AT)
    assert found == [
        Point("QueueDepth", "fetch", 9, AT),
        Point("QueueDepth", "parse", 1, AT),
        Point("ActiveWorkers", "fetch", 7, AT),
        Point("ActiveWorkers", "parse", 0, AT),
    ]


def test_what_the_server_does_not_report_is_not_put():
    assert [point.metric for point in points_of([summary("fetch", 3, None)], AT)] == [
        "ActiveWorkers"
    ]


def test_a_request_is_as_cloudwatch_reads_it():
    points = [Point("QueueDepth", "fetch", 12_345_678, AT), Point("ActiveWorkers", "a b&c", 0, AT)]
    form = Asked("POST", "/", {}, request_body(points)).form
    assert points_in(form) == [("QueueDepth", "fetch", 12_345_678), ("ActiveWorkers", "a b&c", 0)]
    assert form["Namespace"] == "CommonCrawlWorker"
    assert form["MetricData.member.1.Timestamp"] == "2023-11-14T22:13:20Z"
    assert form["MetricData.member.1.StorageResolution"] == "1"


def test_a_full_request_is_within_the_limits_of_cloudwatch():
    points = [Point("ActiveWorkers", "x" * 1024, 1e9, AT)] * MOST_IN_REQUEST
    assert len(request_body(points)) < 1_000_000


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (refusal(503, "ServiceUnavailable"), (False, False)),
        (refusal(400, "Throttling"), (False, False)),
        (refusal(403, "ExpiredToken"), (False, True)),
        (refusal(400, "InvalidParameterValue"), (True, False)),
    ],
    ids=["away", "throttled", "keys", "for good"],
)
def test_a_refusal_says_whether_to_try_again(reply, told):
    found = refusal_of(reply.status, reply.body)
    assert found is not None
    assert (found.is_for_good, found.is_about_keys) == told
    assert found.reason.endswith(": why")


def test_without_a_region_it_does_not_start():
    with pytest.raises(ConfigError, match="AWS_REGION"):
        CloudWatch({})


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloudwatch_put, "EVERY_S", 0.01)


@pytest.fixture
def server() -> Iterator[AwsServer]:
    with AwsServer() as server:
        yield server


def counted(work: Putting) -> dict[str, float]:
    return {
        sample.labels[0] if sample.labels else "waiting": sample.value
        for made in work.families()
        for sample in made.samples
    }


async def run_until(work: Putting, probe: Callable[[], Any]) -> None:
    task = asyncio.create_task(work.run())
    try:
        await eventually(probe)
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_points_reach_a_server_that_speaks_its_protocol(
    often: None, server: AwsServer
) -> None:
    put = CloudWatch({**ENV, "AWS_ENDPOINT_URL_CLOUDWATCH": f"{server.url}/"}).put
    work = Putting(lambda: STATUS, put)
    await run_until(work, lambda: counted(work)["sent"] >= 4)
    assert set(server.points) == {("QueueDepth", "fetch", 7), ("ActiveWorkers", "fetch", 50)}
    credential = "Credential=a/"
    assert all(credential in asked.headers["Authorization"] for asked in server.asked)
    assert all("/monitoring/aws4_request" in one.headers["Authorization"] for one in server.asked)


async def test_what_could_not_be_sent_is_sent_later_in_its_order(often: None) -> None:
    seen: list[Point] = []
    failures: list[Refusal | ManyhandsError] = [
        NoAnswer("refused"),
        Refusal("Throttling: why", is_for_good=False, is_about_keys=False),
    ]

    def put(points: list[Point]) -> Refusal | None:
        if not failures:
            seen.extend(points)
            return None
        failure = failures.pop()
        if isinstance(failure, Refusal):
            return failure
        raise failure

    work = Putting(lambda: STATUS, put)
    await run_until(work, lambda: not failures and len(seen) >= 10)
    assert [point.at for point in seen] == sorted(point.at for point in seen)
    assert counted(work)["dropped"] == counted(work)["refused"] == 0


async def test_what_is_refused_for_good_is_counted_and_the_rest_goes_on(often: None) -> None:
    refusals = [Refusal("InvalidParameterValue: why", is_for_good=True, is_about_keys=False)]

    work = Putting(lambda: STATUS, lambda _: refusals.pop() if refusals else None)
    await run_until(work, lambda: counted(work)["sent"])
    assert counted(work)["refused"] >= 2


async def test_what_waits_is_bounded_and_the_oldest_is_dropped_and_counted(
    often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloudwatch_put, "MOST_WAITING", 5)

    def put(_: list[Point]) -> Refusal | None:
        raise NoAnswer("refused")

    work = Putting(lambda: STATUS, put)
    await run_until(work, lambda: counted(work)["dropped"] >= 4)
    assert counted(work)["sent"] == 0


async def test_a_request_that_hangs_holds_up_neither_the_points_nor_the_end(often: None) -> None:
    asked: list[int] = []
    is_over = threading.Event()

    def put(points: list[Point]) -> Refusal | None:
        asked.append(len(points))
        is_over.wait()
        return None

    work = Putting(lambda: STATUS, put)
    await run_until(work, lambda: asked and counted(work)["waiting"] >= 6)
    assert len(asked) == 1
    is_over.set()
