"""A stage as one, over all processes that run it."""

from manyhands.worker.supervision.stage_summary import STALE_AFTER_S, StageSummary, summarize_stages
from tests.support.service_status import child, service, stage, turn

FETCH = stage("fetch", "fetch.00", "fetch.01", cap=300)


def test_the_processes_of_a_stage_are_added_up():
    status = service(
        child("fetch-0", stages=[FETCH], turns=[turn("fetch", 10)]),
        child("fetch-1", stages=[FETCH], turns=[turn("fetch", 5)]),
        queues={"fetch.00": 3, "fetch.01": 4, "parse": 100},
        queue_lag_s={"fetch.00": 1.5, "fetch.01": 9.0, "parse": 50.0},
        paces={"fetch": 0.25},
    )
    assert summarize_stages(status) == [StageSummary("fetch", "fetch", 15, 600, 0.25, 7, 9.0)]


def test_stages_of_one_process_are_told_apart():
    both = child(
        stages=[stage("add", "default"), stage("parse")], turns=[turn("parse", 2), turn("add", 1)]
    )
    found = summarize_stages(service(both, queues={"default": 8}))
    assert [(one.name, one.active, one.queue_depth) for one in found] == [
        ("add", 1, 8),
        ("parse", 2, 0),
    ]
    assert {one.pace for one in found} == {1.0}
    assert {one.process_type for one in found} == {"worker"}


def test_what_the_server_said_long_ago_is_not_told():
    one = child(stages=[FETCH])
    for age_s in (None, STALE_AFTER_S + 1):
        (found,) = summarize_stages(service(one, queues={"fetch.00": 3}, queues_age_s=age_s))
        assert found.queue_depth is None
        assert found.queue_lag_s is None
    (found,) = summarize_stages(service(one, queues={"fetch.00": 3}, queues_age_s=STALE_AFTER_S))
    assert found.queue_depth == 3


def test_a_child_that_has_not_said_what_it_runs_has_no_stage():
    assert summarize_stages(service(child())) == []
