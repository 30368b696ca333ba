"""What is counted and what is logged of each job."""

import io
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
import structlog

from manyhands.shared.errors import ProtocolError
from manyhands.shared.logs import configure_logs
from manyhands.worker.jobs.delivery import Delivery, parse_delivery
from manyhands.worker.jobs.execution import Execution
from manyhands.worker.jobs.observers import (
    FAILURE_TOLD_EVERY_S,
    LONGEST_JOBTYPE,
    MOST_JOBTYPES,
    OTHER_JOBTYPES,
    FailureLog,
    JobFigures,
    JobLog,
)
from manyhands.worker.jobs.outcomes import (
    DONE,
    PUT_BACK,
    Dead,
    Defer,
    Drop,
    Failed,
    Move,
    Outcome,
    Retry,
)
from manyhands.worker.jobs.registry import Registry
from manyhands.worker.service.families import DURATION_BOUNDS_S
from manyhands.worker.testing import MemorySource, make_delivery
from tests.support.log_settings import restored_logs

FAILED = Failed("ValueError", "no")
EVERY_OUTCOME: list[Outcome] = [
    *(DONE, PUT_BACK, FAILED, Retry(1)),
    *(Defer(datetime(2030, 1, 1, tzinfo=UTC)), Move("there"), Drop(), Dead()),
]


class PoliteRetry(Retry):
    """What a handler's author may have made."""


def ended(figures: JobFigures, *outcomes: Outcome, took_s: float = 0.0, jobtype: str = "a") -> None:
    for outcome in outcomes:
        figures.job_ended(make_delivery(jobtype, reserved_after=0.0), outcome, took_s)


def test_jobs_are_counted_by_type_and_outcome():
    figures = JobFigures()
    ended(figures, DONE, DONE, FAILED)
    ended(figures, DONE, Drop(), jobtype="b")
    assert figures.jobtypes["a"].by_outcome() == {"done": 2, "failed": 1}
    assert figures.jobtypes["b"].by_outcome() == {"done": 1, "drop": 1}
    assert figures.by_outcome() == {"done": 3, "failed": 1, "drop": 1}


def test_every_outcome_has_a_name():
    figures = JobFigures()
    ended(figures, *EVERY_OUTCOME)
    assert figures.by_outcome() == dict.fromkeys(
        ["done", "put_back", "failed", "retry", "defer", "move", "drop", "dead"], 1
    )


def test_a_handlers_own_kind_of_retry_is_a_retry():
    figures = JobFigures()
    ended(figures, PoliteRetry(1), Retry(1))
    assert figures.by_outcome() == {"retry": 2}


@pytest.mark.parametrize(
    ("took_s", "bucket"),
    [
        (0.0, 0),
        (DURATION_BOUNDS_S[0], 0),
        (0.0011, 1),
        (1.0, DURATION_BOUNDS_S.index(1.0)),
        (300.0, len(DURATION_BOUNDS_S) - 1),
        (300.1, len(DURATION_BOUNDS_S)),
    ],
)
def test_a_duration_falls_into_the_bucket_whose_bound_it_does_not_exceed(took_s, bucket):
    figures = JobFigures()
    ended(figures, DONE, took_s=took_s)
    counted = figures.jobtypes["a"]
    assert [place for place, count in enumerate(counted.durations.buckets) if count] == [bucket]
    assert counted.durations.sum == took_s


def test_a_job_that_is_put_back_has_no_duration():
    figures = JobFigures()
    ended(figures, PUT_BACK, took_s=3.0)
    assert sum(figures.jobtypes["a"].durations.buckets) == 0
    assert figures.jobtypes["a"].durations.sum == 0.0


def test_invented_job_types_do_not_fill_the_memory():
    figures = JobFigures()
    for number in range(MOST_JOBTYPES * 3):
        ended(figures, FAILED, jobtype=f"invented-{number}")
    ended(figures, FAILED, jobtype="x" * 10_000)
    assert len(figures.jobtypes) == MOST_JOBTYPES + 1
    assert figures.jobtypes[OTHER_JOBTYPES].by_outcome() == {"failed": MOST_JOBTYPES * 2 + 1}
    assert figures.by_outcome() == {"failed": MOST_JOBTYPES * 3 + 1}


def test_a_long_name_is_cut_and_counted_as_one():
    figures = JobFigures()
    ended(figures, DONE, DONE, jobtype="x" * 10_000)
    assert list(figures.jobtypes) == ["x" * LONGEST_JOBTYPE]
    assert figures.by_outcome() == {"done": 2}


# Logs


async def log_lines(monkeypatch: pytest.MonkeyPatch, level: str) -> list[dict[str, Any]]:
    """What is logged while three jobs run, one of which fails and one of which nobody knows."""
    registry = Registry()
    stderr = io.StringIO()
    ended_deliveries: list[Delivery] = []
    monkeypatch.setattr(sys, "stderr", stderr)

    @registry.job("works")
    async def works() -> None:
        pass

    @registry.job("fails")
    async def fails() -> None:
        raise ValueError("on purpose")

    with restored_logs(), ThreadPoolExecutor(1) as threads:
        configure_logs(level, service="worker")
        execution = Execution(MemorySource(), registry, [JobFigures(), JobLog()], threads)
        for jobtype in ("works", "fails", "unknown"):
            await execution.run_one(make_delivery(jobtype), ended_deliveries.append)
    return [json.loads(line) for line in stderr.getvalue().splitlines()]


async def test_at_info_no_job_has_a_line(monkeypatch):
    assert await log_lines(monkeypatch, "info") == []


async def test_at_debug_every_job_has_two_lines(monkeypatch):
    lines = await log_lines(monkeypatch, "debug")
    assert [line["event"] for line in lines] == [
        *("started", "ended", "started", "failed", "started", "failed")
    ]
    assert {line["component"] for line in lines} == {"job"}
    assert {line["level"] for line in lines} == {"debug"}


def test_a_name_that_is_no_text_never_gets_here():
    """A lone surrogate could not be sent to the supervisor."""
    payload = b'{"jid":"job-00000001","jobtype":"\\ud800","args":[],"queue":"default"}'
    with pytest.raises(ProtocolError):
        parse_delivery(payload, 0.0)


def test_a_job_that_failed_leaves_a_line_without_its_arguments():
    log = FailureLog()
    with structlog.testing.capture_logs() as lines:
        log.job_ended(make_delivery("a", ["s3cret"], reserved_after=0.0), FAILED, 0.5)
        log.job_ended(make_delivery("a", reserved_after=0.0), DONE, 0.5)
    (line,) = lines
    assert (line["log_level"], line["jobtype"], line["error"]) == ("warning", "a", "ValueError")
    assert line["message"] == "no" and line["jid"]
    assert "s3cret" not in str(line)


def test_of_jobs_that_fail_alike_one_is_told_and_the_others_are_counted():
    now = 100.0
    log = FailureLog(lambda: now)
    with structlog.testing.capture_logs() as lines:
        for _ in range(50):
            log.job_ended(make_delivery("a", reserved_after=0.0), FAILED, 0.0)
        log.job_ended(make_delivery("a", reserved_after=0.0), Failed("OSError", "x"), 0.0)
        now += FAILURE_TOLD_EVERY_S
        log.job_ended(make_delivery("a", reserved_after=0.0), FAILED, 0.0)
    assert [line["error"] for line in lines] == ["ValueError", "OSError", "ValueError"]
    assert lines[-1]["more_like_it"] == 49
