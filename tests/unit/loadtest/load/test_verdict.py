"""What the books of a load test come to: which promise was broken, rates, times and targets."""

import pytest

from loadtest.load.ledger import Answer, Books, Done, Outcome
from loadtest.load.run import failures_of
from loadtest.load.verdict import Targets, judge, unfinished

NO_TARGETS = Targets(min_jobs_per_s=0, max_p95_ms=float("inf"))
SECOND = 1_000_000


def told(outcome: Outcome, first: int, jobs: int = 1, kind: str = "single") -> Answer:
    return Answer(kind, outcome, first, jobs, posted_us=0, answered_us=SECOND)


def done(*numbers: int) -> list[Done]:
    return [Done(number, 0, 2 * SECOND) for number in numbers]


def test_accepted_jobs_that_were_all_done_are_no_failure():
    books = Books([told(Outcome.QUEUED, 0, 3, "list")], done(0, 1, 2))
    assert unfinished(books) == 0
    assert failures_of(judge(books), NO_TARGETS) == []


def test_an_accepted_job_that_was_not_done_is_lost():
    books = Books([told(Outcome.QUEUED, 0, 3, "list")], done(0, 2))
    assert unfinished(books) == 1
    assert judge(books).broken_promises() == ["1 jobs were accepted and never done"]


def test_a_job_may_be_done_twice():
    verdict = judge(Books([told(Outcome.QUEUED, 0)], done(0, 0)))
    assert (verdict.repeated, verdict.total.completed) == (1, 1)
    assert verdict.broken_promises() == []


def test_a_refused_job_that_was_done_is_a_broken_promise():
    verdict = judge(Books([told(Outcome.REFUSED, 0, 5, "list")], done(3)))
    assert verdict.broken_promises() == ["1 jobs were refused and done all the same"]


@pytest.mark.parametrize("numbers", [(), (0,)])
def test_a_job_of_unknown_outcome_may_be_done_or_not(numbers):
    verdict = judge(Books([told(Outcome.UNKNOWN, 0)], done(*numbers)))
    assert verdict.broken_promises() == []
    assert failures_of(verdict, NO_TARGETS) == ["0 jobs were refused, of 1 the outcome is unknown"]


def test_a_job_without_an_answer_is_a_broken_promise_unless_the_client_went_away():
    assert judge(Books([told(Outcome.BROKEN, 0)], [])).broken_promises() == [
        "1 jobs got no answer, or one that says nothing of them"
    ]
    verdict = judge(Books([told(Outcome.ABANDONED, 0)], []))
    assert failures_of(verdict, NO_TARGETS) == []


def test_rates_count_from_the_first_post_to_the_last_answer_or_the_last_job_done():
    answers = [
        Answer("list", Outcome.QUEUED, 0, 100, SECOND, 2 * SECOND),
        Answer("single", Outcome.QUEUED, 100, 1, 2 * SECOND, 3 * SECOND),
    ]
    runs = [Done(number, SECOND, 5 * SECOND) for number in range(100)]
    verdict = judge(Books(answers, [*runs, Done(100, 2 * SECOND, 3 * SECOND)]))
    assert [row.kind for row in verdict.rows] == ["list", "single", "all"]
    assert (verdict.total.accepted_per_s, verdict.total.completed_per_s) == (50.5, 25.25)
    one_job = verdict.rows[1]
    assert (one_job.accepted_per_s, one_job.completed_per_s) == (1.0, 1.0)


def test_times_are_of_requests_until_answered_and_of_jobs_until_first_done():
    answers = [Answer("list", Outcome.QUEUED, 0, 2, 0, 3000)]
    runs = [Done(0, 0, 8000), Done(0, 0, 4000), Done(1, 0, 6000)]
    total = judge(Books(answers, runs)).total
    assert total.to_answer.p99_ms == 3.0
    assert (total.to_done.p50_ms, total.to_done.p95_ms) == (4.0, 6.0)


def test_targets_that_are_missed_are_told_with_what_was_reached():
    total = judge(Books([told(Outcome.QUEUED, 0)], done(0))).total
    assert Targets(min_jobs_per_s=0.5, max_p95_ms=2000).missed(total) == []
    assert Targets(min_jobs_per_s=10, max_p95_ms=1500).missed(total) == [
        "0 jobs/s were completed, the target is 10",
        "p95 from POST to done was 2,000 ms, the target is 1,500",
    ]


def test_a_load_test_without_any_job_misses_its_targets():
    verdict = judge(Books([], []))
    assert failures_of(verdict, Targets(min_jobs_per_s=1, max_p95_ms=1)) == [
        "0 jobs/s were completed, the target is 1"
    ]
