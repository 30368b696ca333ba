"""The middleware that comes with the worker: two for logs, one for figures."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from manyhands.shared.histogram import Histogram
from manyhands.shared.logs import get_logger
from manyhands.worker.jobs.delivery import Delivery
from manyhands.worker.jobs.outcomes import (
    PUT_BACK,
    Dead,
    Defer,
    Done,
    Drop,
    Failed,
    Move,
    Outcome,
    PutBack,
    Retry,
)
from manyhands.worker.service.families import DURATION_BOUNDS_S

OUTCOME_NAMES: dict[type, str] = {
    Done: "done",
    PutBack: "put_back",
    Failed: "failed",
    Retry: "retry",
    Defer: "defer",
    Move: "move",
    Drop: "drop",
    Dead: "dead",
}
# Any producer can invent job types; each would be kept and shown for ever.
MOST_JOBTYPES = 200
LONGEST_JOBTYPE = 100
OTHER_JOBTYPES = "(other)"
FAILURE_TOLD_EVERY_S = 5.0
LONGEST_MESSAGE = 500


class JobLog:
    """Two lines per job, at DEBUG only: thousands of jobs a second must not fill the disk."""

    def __init__(self) -> None:
        # Bound here, so that a call below the log level costs nothing but itself.
        self._log = get_logger("job").bind()

    def job_started(self, delivery: Delivery) -> None:
        self._log.debug("started", id=delivery.id, jobtype=delivery.jobtype)

    def job_ended(self, delivery: Delivery, outcome: Outcome, took_s: float) -> None:
        if isinstance(outcome, Failed):
            self._log.debug(
                "failed",
                id=delivery.id,
                jobtype=delivery.jobtype,
                error=outcome.error_type,
                message=outcome.message,
            )
        else:
            self._log.debug("ended", id=delivery.id, outcome=type(outcome).__name__, took_s=took_s)


class FailureLog:
    """A line for a failed job, at most one per error type in FAILURE_TOLD_EVERY_S seconds:
    thousands of failures must be seen, but must not fill the disk. Never the arguments. State: for
    each error, when it was last logged and how often it was skipped since."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: dict[tuple[str, str], tuple[float, int]] = {}
        self._log = get_logger("job")

    def job_started(self, delivery: Delivery) -> None:
        """Nothing has failed yet."""

    def job_ended(self, delivery: Delivery, outcome: Outcome, took_s: float) -> None:
        if isinstance(outcome, Failed):
            self._failed(delivery, outcome, took_s)

    def _failed(self, delivery: Delivery, failed: Failed, took_s: float) -> None:
        error = (delivery.jobtype[:LONGEST_JOBTYPE], failed.error_type)
        now = self._clock()
        told_at, untold = self._told.get(error, (-inf, 0))
        if now - told_at < FAILURE_TOLD_EVERY_S:
            self._told[error] = told_at, untold + 1
            return
        if len(self._told) >= MOST_JOBTYPES:
            self._told.clear()
        self._told[error] = now, 0
        self._log.warning(
            "a job failed",
            jobtype=error[0],
            jid=delivery.jid,
            error=failed.error_type,
            message=failed.message[:LONGEST_MESSAGE],
            took_s=round(took_s, 3),
            **({"more_like_it": untold} if untold else {}),
        )


@dataclass(slots=True)
class JobtypeFigures:
    """How the jobs of one type ended, and how long they took, in seconds."""

    outcomes: defaultdict[type, int] = field(default_factory=lambda: defaultdict(int))
    durations: Histogram = field(default_factory=lambda: Histogram(DURATION_BOUNDS_S))

    def by_outcome(self) -> Counter[str]:
        totals: Counter[str] = Counter()
        for outcome, count in self.outcomes.items():
            totals[_outcome_name(outcome)] += count
        return totals


class JobFigures:
    """Plain counters by job type: they run for every job, so they must cost next to nothing."""

    def __init__(self) -> None:
        self.jobtypes: dict[str, JobtypeFigures] = {}

    def job_started(self, delivery: Delivery) -> None:
        """Jobs in hand are counted where they are held."""

    def job_ended(self, delivery: Delivery, outcome: Outcome, took_s: float) -> None:
        figures = self.jobtypes.get(delivery.jobtype) or self._figures_of_new(delivery.jobtype)
        figures.outcomes[type(outcome)] += 1
        # A job that was put back has not ended, and may not even have started.
        if outcome is not PUT_BACK:
            figures.durations.add(took_s)

    def by_outcome(self) -> dict[str, int]:
        totals: Counter[str] = Counter()
        for figures in self.jobtypes.values():
            totals.update(figures.by_outcome())
        return dict(totals)

    def _figures_of_new(self, jobtype: str) -> JobtypeFigures:
        name = jobtype[:LONGEST_JOBTYPE]
        if name not in self.jobtypes and len(self.jobtypes) >= MOST_JOBTYPES:
            name = OTHER_JOBTYPES
        return self.jobtypes.setdefault(name, JobtypeFigures())


def _outcome_name(outcome: type) -> str:
    """A handler may raise its own kind of Retry."""
    return next(OUTCOME_NAMES[kind] for kind in outcome.__mro__ if kind in OUTCOME_NAMES)
