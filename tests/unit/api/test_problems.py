"""Errors as problem documents."""

import orjson
import pytest

from manyhands.api.problems import (
    Problem,
    bad_request,
    mistake,
    outcome_unknown,
    shutting_down,
    too_busy,
    too_large,
    too_slow,
    unavailable,
    unprocessable,
)
from manyhands.shared.http.problems import MEDIA_TYPE


def test_a_problem_is_a_document_of_rfc_9457():
    problem = unprocessable("args.a: Field required", field="args.a")
    assert orjson.loads(problem.body()) == {
        "type": "about:blank",
        "title": "Unprocessable Entity",
        "status": 422,
        "detail": "args.a: Field required",
        "field": "args.a",
    }
    assert problem.headers["content-type"] == MEDIA_TYPE == "application/problem+json"


@pytest.mark.parametrize(
    ("problem", "status", "retry_after"),
    [
        (bad_request("x"), 400, None),
        (too_slow("x"), 408, None),
        (too_large("a line", 10), 413, None),
        (unprocessable("x"), 422, None),
        (too_busy("x"), 429, "1"),
        (too_busy("x", retry_after_s=7), 429, "7"),
        (mistake(), 500, None),
        (unavailable("x", retry_after_s=2), 503, "2"),
        (shutting_down(), 503, "5"),
        (outcome_unknown("x"), 503, "5"),
    ],
)
def test_each_kind_has_its_status_and_says_when_to_come_again(problem, status, retry_after):
    assert problem.status == status
    assert problem.headers.get("retry-after") == retry_after
    assert orjson.loads(problem.body())["status"] == status


def test_only_an_unknown_outcome_says_so():
    assert orjson.loads(outcome_unknown("x", jid="1").body())["outcome"] == "unknown"
    assert "outcome" not in orjson.loads(unavailable("x", retry_after_s=2).body())


def test_who_needs_a_key_is_told_how_to_give_it():
    assert Problem(401, "x").headers["www-authenticate"] == 'Bearer realm="manyhands"'


def test_a_connection_that_is_of_no_more_use_is_closed():
    assert too_slow("x").headers["connection"] == "close"
    assert shutting_down().headers["connection"] == "close"
    assert "connection" not in bad_request("x").headers
