"""The middleware that comes with the worker: one for logs, one for figures."""

from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from shared.logs import get_logger
from worker.delivery import Delivery
from worker.families import DURATION_BOUNDS_S
from worker.outcomes import (
    PUT_BACK,
    Dead,
    Defer,
    Done,
    Drop,
    Failed,
    Outcome,
    PutBack,
    Retry,
)

OUTCOME_NAMES: dict[type, str] = {
    Done: "done",
    PutBack: "put_back",
    Failed: "failed",
    Retry: "retry",
    Defer: "defer",
    Drop: "drop",
    Dead: "dead",
}
# Anybody who can push can invent names of job types; each would be kept and shown for ever.
MOST_JOBTYPES = 200
LONGEST_JOBTYPE = 100
OTHER_JOBTYPES = "(other)"


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


@dataclass(slots=True)
class JobtypeFigures:
    """`buckets` are by DURATION_BOUNDS_S and one for what took longer."""

    outcomes: defaultdict[type, int] = field(default_factory=lambda: defaultdict(int))
    buckets: list[int] = field(default_factory=lambda: [0] * (len(DURATION_BOUNDS_S) + 1))
    seconds: float = 0.0

    def by_outcome(self) -> Counter[str]:
        totals: Counter[str] = Counter()
        for outcome, count in self.outcomes.items():
            totals[_outcome_name(outcome)] += count
        return totals


class JobFigures:
    """Plain counters by job type: this is done for every job, so it must cost next to nothing."""

    def __init__(self) -> None:
        self.jobtypes: dict[str, JobtypeFigures] = {}

    def job_started(self, delivery: Delivery) -> None:
        """Jobs in hand are counted where they are held."""

    def job_ended(self, delivery: Delivery, outcome: Outcome, took_s: float) -> None:
        figures = self.jobtypes.get(delivery.jobtype) or self._figures_of_new(delivery.jobtype)
        figures.outcomes[type(outcome)] += 1
        # One that was put back has not come to its end, or not even to its start.
        if outcome is not PUT_BACK:
            figures.buckets[bisect_left(DURATION_BOUNDS_S, took_s)] += 1
            figures.seconds += took_s

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
