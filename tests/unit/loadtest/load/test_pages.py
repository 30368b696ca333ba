"""What a load test of pages says: jobs by their state, and pages that were fetched for a reason."""

from pathlib import Path

import pytest

from loadtest.load.ledger import Outcome
from loadtest.load.page_stand import pages_to_ask_for
from loadtest.load.pages import (
    NO_JID,
    PageAnswer,
    jids_of,
    judge_pages,
    read_page_answers,
    write_page_answers,
)
from loadtest.web.politeness import NS, Visit
from tests.support.visits import HOST, visit


def answer(number: int, outcome: Outcome = Outcome.QUEUED) -> PageAnswer:
    return PageAnswer(outcome, f"job-{number}", f"http://{HOST}/{number}")


def page(number: int, at_s: float) -> Visit:
    return visit(f"/{number}", at_s)


def test_jobs_are_counted_by_what_the_api_says_of_them():
    answers = [answer(number) for number in range(6)]
    states = {"job-0": "done", "job-1": "dead", "job-2": "parsing", "job-3": "queued"}
    verdict = judge_pages(answers, states, [page(0, 1)], [])
    assert (verdict.accepted, verdict.done, verdict.dead, verdict.waiting) == (6, 1, 1, 2)
    assert verdict.lost == 2
    assert verdict.broken_promises() == [
        "2 jobs were accepted and are neither waiting, nor done, nor dead"
    ]


@pytest.mark.parametrize(
    ("state", "visits", "promise"),
    [
        ("done", [], "never fetched"),
        ("dead", [page(0, 1)], "dead or were refused were fetched"),
        ("done", [page(0, 1), page(0, 3)], "although nobody was killed"),
    ],
)
def test_a_page_that_was_fetched_too_seldom_or_too_often_is_told(state, visits, promise):
    (said,) = judge_pages([answer(0)], {"job-0": state}, visits, []).broken_promises()
    assert said.startswith("1 ") and promise in said


def test_a_page_that_was_open_at_a_kill_may_be_fetched_again():
    visits = [page(0, 1), page(0, 30)]
    at_once = judge_pages([answer(0)], {"job-0": "done"}, visits, [round(2 * NS)])
    assert at_once.repeated == 1
    assert at_once.broken_promises() == []
    long_after = judge_pages([answer(0)], {"job-0": "done"}, visits, [20 * NS])
    assert long_after.too_many_at_a_kill == 1


def test_what_was_refused_must_not_be_fetched_and_what_was_abandoned_may():
    answers = [answer(0, Outcome.REFUSED), answer(1, Outcome.ABANDONED)]
    verdict = judge_pages(answers, {}, [page(0, 1), page(1, 1)], [])
    assert (verdict.accepted, verdict.fetched_for_nobody, verdict.not_accepted) == (0, 1, 1)


def test_answers_are_read_as_they_were_written(tmp_path: Path):
    answers = [answer(0), answer(1, Outcome.BROKEN)]
    with (tmp_path / "answers").open("w") as file:
        write_page_answers(file, answers)
    assert read_page_answers(tmp_path / "answers") == answers


@pytest.mark.parametrize(
    ("body", "jids"),
    [
        (b'{"jid": "a", "queue": "fetch.01"}', ["a"]),
        (b'{"accepted": 2, "jobs": [{"jid": "a"}, {"jid": "b"}]}', ["a", "b"]),
        (b"not JSON", [NO_JID]),
        (b"[]", [NO_JID]),
        (b'{"status": 503}', [NO_JID]),
    ],
)
def test_an_answer_names_its_jobs(body, jids):
    assert jids_of(body, 1) == jids


def test_some_of_the_pages_have_an_address_that_is_forbidden():
    asked_for = pages_to_ask_for([f"http://a.test/{number}" for number in range(21)])
    assert len(asked_for) == 23
    assert [url for url in asked_for if "192.168" in url] == [
        "http://192.168.0.1/",
        "http://192.168.0.2/",
    ]
