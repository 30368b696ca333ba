"""For tests of handlers: run a job as the worker does, without a server.

def test_a_short_text_is_counted():
    result = run_job_sync("count_words", "to be or not to be")
    assert isinstance(result.outcome, Done)
    assert result.records == [{"words": 6}]
"""

from manyhands.worker.testing import (
    Dead,
    Defer,
    Done,
    Drop,
    Failed,
    JobResult,
    PutBack,
    Retry,
    run_job,
    run_job_sync,
    set_up,
)

__all__ = [
    "Dead",
    "Defer",
    "Done",
    "Drop",
    "Failed",
    "JobResult",
    "PutBack",
    "Retry",
    "run_job",
    "run_job_sync",
    "set_up",
]
