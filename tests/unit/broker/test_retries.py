"""What a failure makes of a job."""

import pytest

from manyhands.broker.jobs import Failure, WireJob, decode_one, encode, utc_text
from manyhands.broker.retries import (
    MAX_DELAY_S,
    RANDOM_DELAY_S,
    Fate,
    fate,
    record_failure,
    retry_delay_s,
)
from manyhands.shared.faktory.codec import (
    MAX_BACKTRACE_LINES,
    MAX_ERROR_MESSAGE_BYTES,
    MAX_ERROR_TYPE_BYTES,
)


def fail(job: WireJob, *, errtype: str = "Oops", message: str = "no", trace: int = 0) -> Failure:
    record_failure(job, errtype, message, ["line"] * trace, 1_700_000_000.0)
    assert job.failure is not None
    return job.failure


@pytest.mark.parametrize(
    ("retry", "fates"),
    [
        (-1, [Fate.DEAD]),
        (0, [Fate.DISCARDED]),
        (1, [Fate.RETRIED, Fate.DEAD]),
        (25, [Fate.RETRIED] * 25 + [Fate.DEAD]),
    ],
)
def test_retry_says_how_many_runs_may_follow_the_first(retry, fates):
    job = WireJob(retry=retry)
    for expected in fates:
        fail(job)
        assert fate(job) is expected


def test_the_first_failure_is_dated_and_counts_no_retry():
    failure = fail(WireJob(retry=3))
    assert (failure.retry_count, failure.remaining) == (0, 3)
    assert failure.failed_at == utc_text(1_700_000_000.0) == "2023-11-14T22:13:20Z"


def test_further_failures_count_up_and_down_to_zero_and_keep_the_date_of_the_first():
    job = WireJob(retry=2)
    fail(job)
    seen = []
    for _ in range(3):
        record_failure(job, "Later", "again", [], 1_800_000_000.0)
        assert job.failure is not None
        seen.append((job.failure.retry_count, job.failure.remaining))
    assert seen == [(1, 1), (2, 0), (3, 0)]
    assert job.failure is not None
    assert job.failure.failed_at == "2023-11-14T22:13:20Z"
    assert (job.failure.errtype, job.failure.message) == ("Later", "again")


def test_a_failure_that_came_with_the_job_goes_on_counting():
    job = WireJob(retry=5, failure=Failure(retry_count=4, remaining=1))
    assert fail(job).retry_count == 5
    assert fate(job) is Fate.DEAD


@pytest.mark.parametrize("errtype", ["", "  ", "\n"])
def test_a_failure_without_words_is_unknown(errtype):
    failure = fail(WireJob(), errtype=errtype, message=errtype)
    assert (failure.errtype, failure.message) == ("unknown", "unknown")


@pytest.mark.parametrize("character", ["x", "é", "€", "😀"])
def test_texts_are_cut_between_characters(character):
    failure = fail(WireJob(), errtype=character * 2000, message=character * 2000, trace=80)
    size = len(character.encode())
    assert failure.errtype == character * (MAX_ERROR_TYPE_BYTES // size)
    assert failure.message == character * (MAX_ERROR_MESSAGE_BYTES // size)
    assert failure.backtrace == ["line"] * MAX_BACKTRACE_LINES


def test_a_lone_surrogate_in_a_message_does_not_keep_the_job_from_being_written():
    job = WireJob(jid="12345678")
    fail(job, message="\ud800")
    read = decode_one(encode(job))
    assert read.failure is not None
    assert read.failure.message == "\\ud800"


@pytest.mark.parametrize(
    ("retry_count", "random_s", "delay_s"),
    [(0, 0, 15), (0, 29, 44), (1, 0, 16), (1, 10, 36), (5, 3, 658), (24, 29, 332_516)],
)
def test_the_delay_is_that_of_faktory(retry_count, random_s, delay_s):
    assert retry_delay_s(retry_count, random_s) == delay_s


@pytest.mark.parametrize("retry_count", [1_000, 10**9, 2**80, -(2**80)])
def test_the_next_try_has_a_date_however_many_failures_a_job_came_with(retry_count):
    delay_s = retry_delay_s(retry_count, RANDOM_DELAY_S - 1)
    assert 0 < delay_s <= MAX_DELAY_S
    assert utc_text(4_000_000_000.0 + delay_s)
