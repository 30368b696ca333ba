"""For tests of handlers: run a job as the worker does, without a server; of page functions: give
them a page.

def test_a_short_text_is_counted():
    result = run_job_sync("count_words", "to be or not to be")
    assert isinstance(result.outcome, Done)
    assert result.records == [{"words": 6}]

def test_a_quote_is_found():
    assert run_page("<q>To be</q>", url="https://quotes.example/").items == [{"text": "To be"}]
"""

from manyhands.worker.page_functions.trial import PageResult, run_page
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
    "PageResult",
    "PutBack",
    "Retry",
    "run_job",
    "run_job_sync",
    "run_page",
    "set_up",
]
