"""What a failure makes of a job. Pure: `now` and the random delay are passed in."""

from enum import Enum

from manyhands.broker.jobs import Failure, WireJob, utc_text
from manyhands.shared.faktory.codec import (
    MAX_BACKTRACE_LINES,
    MAX_ERROR_MESSAGE_BYTES,
    MAX_ERROR_TYPE_BYTES,
    cut_to_bytes,
)
from manyhands.shared.jobs import DEFAULT_RETRY

RANDOM_DELAY_S = 30
# A client may push a job with any count of failures: its next try must still have a date.
MAX_DELAY_S = 100 * 365 * 24 * 3600


class Fate(Enum):
    DISCARDED = "discarded"
    RETRIED = "retried"
    DEAD = "dead"


def record_failure(
    job: WireJob, errtype: str, message: str, backtrace: list[str], now: float
) -> None:
    """Write the failure into the job, cut to what Faktory keeps, but between characters."""
    failure = job.failure
    if failure is None:
        retry = DEFAULT_RETRY if job.retry is None else job.retry
        failure = job.failure = Failure(remaining=retry, failed_at=utc_text(now))
    else:
        failure.retry_count = failure.spent + 1
        if failure.remaining and failure.remaining > 0:
            failure.remaining -= 1
    failure.errtype = cut_to_bytes(errtype.strip(), MAX_ERROR_TYPE_BYTES) or "unknown"
    failure.message = cut_to_bytes(message.strip(), MAX_ERROR_MESSAGE_BYTES) or "unknown"
    failure.backtrace = [*backtrace[:MAX_BACKTRACE_LINES]] or None


def fate(job: WireJob) -> Fate:
    """After `record_failure`: by its own `retry`, which counts what may follow the first run."""
    if not job.retry:
        return Fate.DISCARDED
    assert job.failure is not None
    return Fate.RETRIED if job.failure.spent < job.retry else Fate.DEAD


def retry_delay_s(retry_count: int, random_s: int) -> int:
    """Faktory's formula; `random_s` is 0 to 29."""
    return min(int(retry_count**4) + 15 + random_s * (retry_count + 1), MAX_DELAY_S)
