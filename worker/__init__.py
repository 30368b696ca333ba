"""The worker service. Handler modules need only this: `from worker import job`."""

from shared.jobs import Job
from worker.context import JobContext
from worker.outcomes import Dead, Defer, Drop, Retry
from worker.registry import job

__all__ = ["Dead", "Defer", "Drop", "Job", "JobContext", "Retry", "job"]
