"""Manyhands: jobs from a Faktory server, thousands at a time, and the crawls that run on them.

    from manyhands import Client, Job, JobContext, Retry, job

The services are its packages: `api`, `broker`, `worker`; `manyhands --help` says how to run them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from manyhands.shared.faktory.client import Client
    from manyhands.shared.jobs import Job
    from manyhands.shared.version import VERSION as __version__
    from manyhands.worker.jobs.context import JobContext
    from manyhands.worker.jobs.outcomes import Dead, Defer, Drop, Retry
    from manyhands.worker.jobs.registry import job, setup
    from manyhands.worker.jobs.setup import ProcessSetup
    from manyhands.worker.page_functions.page import Page
    from manyhands.worker.page_functions.registry import page

__all__ = [
    "Client",
    "Dead",
    "Defer",
    "Drop",
    "Job",
    "JobContext",
    "Page",
    "ProcessSetup",
    "Retry",
    "__version__",
    "job",
    "page",
    "setup",
]

_FROM = {
    "Client": "manyhands.shared.faktory.client",
    "Dead": "manyhands.worker.jobs.outcomes",
    "Defer": "manyhands.worker.jobs.outcomes",
    "Drop": "manyhands.worker.jobs.outcomes",
    "Job": "manyhands.shared.jobs",
    "JobContext": "manyhands.worker.jobs.context",
    "Page": "manyhands.worker.page_functions.page",
    "ProcessSetup": "manyhands.worker.jobs.setup",
    "Retry": "manyhands.worker.jobs.outcomes",
    "job": "manyhands.worker.jobs.registry",
    "page": "manyhands.worker.page_functions.registry",
    "setup": "manyhands.worker.jobs.registry",
}


def __getattr__(name: str) -> Any:
    """Loaded when first asked for: every service imports this package, and none of them needs all
    of these names, or has installed what they need."""
    if name == "__version__":
        return import_module("manyhands.shared.version").VERSION
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_FROM[name]), name)
