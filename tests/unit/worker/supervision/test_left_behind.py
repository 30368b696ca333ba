"""Jobs without retries of a child that died: put back, and let go when they may have done it."""

import orjson

from manyhands.worker.service.held_jobs import HeldJob
from manyhands.worker.supervision.left_behind import MOST_DEATHS, judge


def held(deaths: int | None = None, *, was_started: bool = True) -> HeldJob:
    job = {"jid": "job-0001", "jobtype": "t", "args": [1], "queue": "q", "retry": 0}
    if deaths is not None:
        job["custom"] = {"mh": {"id": "first", "deliveries": 4, "deaths": deaths}, "other": 1}
    return HeldJob(orjson.dumps(job), was_started)


def test_a_job_goes_back_as_it_was_under_a_fresh_jid_and_tells_of_the_death():
    (left,) = judge([held()])
    assert left.copy is not None and left.job.jid == "job-0001"
    copy = orjson.loads(left.copy)
    assert copy.pop("jid") != "job-0001"
    assert copy == {
        "jobtype": "t",
        "args": [1],
        "queue": "q",
        "retry": 0,
        "custom": {"mh": {"id": "job-0001", "deliveries": 1, "deaths": 1}},
    }


def test_one_that_has_seen_too_many_deaths_has_failed():
    (left,) = judge([held(MOST_DEATHS - 1)])
    assert (left.copy, left.deaths) == (None, MOST_DEATHS)


def test_one_that_only_waited_is_not_to_blame():
    (left,) = judge([held(MOST_DEATHS - 1, was_started=False)])
    assert left.copy is not None
    assert orjson.loads(left.copy)["custom"]["mh"]["deaths"] == MOST_DEATHS - 1
