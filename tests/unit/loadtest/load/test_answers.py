"""What the load test takes the API's answers for, with answers that the API itself has made."""

from collections import Counter

import orjson
import pytest

from loadtest.load.answers import told_of_lines, told_of_list, told_of_single
from loadtest.load.ledger import Outcome
from manyhands.api.intake import Intake, split_list
from manyhands.api.problems import Problem, outcome_unknown, unavailable
from manyhands.api.stream import Report, push_list
from manyhands.shared.errors import ConnectionLost, NotSent

QUEUED, REFUSED, UNKNOWN, BROKEN = (
    Outcome.QUEUED,
    Outcome.REFUSED,
    Outcome.UNKNOWN,
    Outcome.BROKEN,
)
ITEM = b'{"jobtype":"add","args":{"a":1,"b":2}}'


class Broker:
    """Answers each PUSHB with what it was given: refused jobs, or an error."""

    is_up = True

    def __init__(self, *answers: Exception | None) -> None:
        self._answers = list(answers)

    async def push_encoded(self, jobs, *, timeout_s):
        answer = self._answers.pop(0)
        if answer is not None:
            raise answer
        return {}


def pay_nothing(jobs: int) -> None:
    """There is no limit here."""


async def problem_of_list(count: int, *answers: Exception | None) -> Problem:
    items = split_list(b"[" + b",".join([ITEM] * count) + b"]")
    intake = Intake(shards=1, allows_unknown=False, keeps_big_integers=lambda: True)
    with pytest.raises(Problem) as raised:
        await push_list(Broker(*answers), items, intake.item, pay_nothing)
    return raised.value


def problem_of(report: Report) -> Problem:
    with pytest.raises(Problem) as raised:
        report.result()
    return raised.value


def test_a_single_job_is_queued_with_202_only():
    assert told_of_single(202, b'{"jid":"x","queue":"default"}') == [QUEUED]
    assert told_of_single(200, b"{}") == [BROKEN]


@pytest.mark.parametrize(
    ("problem", "outcome"),
    [
        (unavailable("the broker is away: the job was not taken", retry_after_s=2), REFUSED),
        (outcome_unknown("it may be queued or not", jid="x"), UNKNOWN),
        (Problem(429, "slower"), REFUSED),
        (Problem(422, "no"), REFUSED),
        (Problem(500, "a fault of ours says nothing"), BROKEN),
    ],
)
def test_a_problem_says_whether_a_job_was_refused(problem, outcome):
    assert told_of_single(problem.status, problem.body()) == [outcome]
    assert told_of_list(3, problem.status, problem.body()) == [outcome] * 3
    assert told_of_lines(3, problem.status, problem.body()) == [outcome] * 3


@pytest.mark.parametrize(
    ("status", "body"), [(0, b""), (502, b"<html>"), (503, b"busy"), (400, b"[]")]
)
def test_an_answer_that_is_none_of_ours_is_broken(status, body):
    assert told_of_single(status, body) == [BROKEN]
    assert told_of_list(2, status, body) == [BROKEN] * 2
    assert told_of_lines(2, status, body) == [BROKEN] * 2


def test_a_list_is_queued_when_all_of_it_is():
    assert told_of_list(2, 202, b'{"accepted":2,"jobs":[{},{}]}') == [QUEUED] * 2
    assert told_of_list(3, 202, b'{"accepted":2,"jobs":[{},{}]}') == [BROKEN] * 3


async def test_a_list_that_failed_in_part_tells_each_job():
    problem = await problem_of_list(3000, None, ConnectionLost("cut"), NotSent("away"))
    told = told_of_list(3000, problem.status, problem.body())
    assert told == [QUEUED] * 1000 + [UNKNOWN] * 1000 + [REFUSED] * 1000


def test_lines_that_are_all_accepted_are_queued():
    body = orjson.dumps(Report(accepted=4).result())
    assert told_of_lines(4, 202, body) == [QUEUED] * 4


def test_lines_with_errors_are_refused_and_the_others_queued():
    report = Report(accepted=2)
    report.refuse(Problem(422, "not a job"), 2)
    assert told_of_lines(3, 202, orjson.dumps(report.result())) == [QUEUED, REFUSED, QUEUED]


def test_a_stream_that_was_stopped_tells_each_line():
    report = Report(
        accepted=3,
        unknown_lines=[4, 5],
        unqueued_lines=[6],
        stopped_by=Problem(503, "the broker went away"),
        next_line=8,
    )
    report.refuse(Problem(422, "not a job"), 7)
    problem = problem_of(report)
    told = told_of_lines(10, problem.status, problem.body())
    assert told == [QUEUED] * 3 + [UNKNOWN] * 2 + [REFUSED] * 5


@pytest.mark.parametrize("status", [400, 408, 413])
def test_a_stream_that_cannot_be_read_to_its_end_tells_what_was_queued(status):
    report = Report(accepted=2, stopped_by=Problem(status, "the line is too long"), next_line=3)
    problem = problem_of(report)
    assert told_of_lines(4, problem.status, problem.body()) == [QUEUED] * 2 + [REFUSED] * 2


def test_a_stream_whose_report_does_not_add_up_is_broken():
    report = Report(accepted=2, stopped_by=Problem(503, "the broker went away"), next_line=4)
    problem = problem_of(report)
    assert Counter(told_of_lines(9, problem.status, problem.body())) == {BROKEN: 9}
