"""The middleware that comes with the worker: one for logs, one for figures."""

from collections import Counter, defaultdict

from shared.logs import get_logger
from worker.delivery import Delivery
from worker.outcomes import Failed, Outcome


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


class JobFigures:
    """Plain counters: jobs by type and outcome, seconds by type."""

    def __init__(self) -> None:
        self.jobs: Counter[tuple[str, str]] = Counter()
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def job_started(self, delivery: Delivery) -> None:
        """Jobs in hand are counted where they are held."""

    def job_ended(self, delivery: Delivery, outcome: Outcome, took_s: float) -> None:
        self.jobs[delivery.jobtype, type(outcome).__name__] += 1
        self.seconds[delivery.jobtype] += took_s

    def by_outcome(self) -> dict[str, int]:
        totals: Counter[str] = Counter()
        for (_, outcome), count in self.jobs.items():
            totals[outcome] += count
        return dict(totals)
