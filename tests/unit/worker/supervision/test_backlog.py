"""What the children are told of the queues."""

import pytest

from manyhands.worker.service.link import Backlog, Pulse, Pushed, SlowSink, StageReport
from manyhands.worker.supervision.backlog import (
    backlog_of,
    mean_bytes_by_queue,
    slowest_sink,
    watched_queues,
)

FETCH = StageReport("fetch", ["fetch.0", "fetch.1"], 3, 500, "parse")
PARSE = StageReport("parse", ["parse"], 1, 80, "")
SIZES = {"fetch.0": 7, "parse": 40, "other": 1}


def test_queues_that_are_filled_are_watched_like_those_that_are_fetched_from():
    assert watched_queues([FETCH]) == {"fetch.0", "fetch.1", "parse"}
    assert watched_queues([FETCH, PARSE]) == {"fetch.0", "fetch.1", "parse"}
    assert watched_queues([]) == set()


def test_a_child_with_one_stage_that_may_do_as_it_likes_is_told_nothing():
    assert backlog_of([FETCH], SIZES, {}, {}) is None
    assert backlog_of([FETCH], SIZES, {"fetch": 1.0}, {"fetch": 1.0}) is None
    assert backlog_of([], SIZES, {}, {}) is None


def test_a_child_with_several_stages_is_told_of_the_queues_of_these():
    assert backlog_of([FETCH, PARSE], SIZES, {"fetch": 1.0}, {}) == Backlog(
        {"fetch.0": 7, "fetch.1": 0, "parse": 40}, {"fetch": 1.0, "parse": 1.0}
    )


@pytest.mark.parametrize("told", [{}, {"fetch": 0.5}])
def test_a_child_whose_stage_is_slowed_is_told_so_each_time(told):
    message = backlog_of([FETCH], SIZES, {"fetch": 0.5, "parse": 0.1}, told)
    assert message == Backlog({"fetch.0": 7, "fetch.1": 0}, {"fetch": 0.5})


def test_a_child_whose_stage_may_go_on_is_told_so_once():
    message = backlog_of([FETCH], SIZES, {"fetch": 1.0}, {"fetch": 0.5})
    assert message is not None
    assert backlog_of([FETCH], SIZES, {"fetch": 1.0}, message.paces) is None


def test_a_child_is_told_of_the_slowest_sink_of_all():
    quick, slow = (
        Pulse([], True, False, 0, 0, 0.0, 0.0, [], slow_sink=SlowSink("kafka", wait_s))
        for wait_s in (3.0, 9.0)
    )
    sink = slowest_sink([turn(), quick, slow])
    assert sink == SlowSink("kafka", 9.0)
    message = backlog_of([FETCH], SIZES, {}, {}, (), sink)
    assert message is not None and message.slow_sink == sink
    assert slowest_sink([turn()]) is None


def turn(**pushed: Pushed) -> Pulse:
    return Pulse([], True, False, 0, 0, 0.0, 0.0, [], pushed)


def test_the_size_of_a_job_is_that_of_all_that_the_children_have_pushed():
    turns = [turn(parse=Pushed(1, 100), other=Pushed()), turn(parse=Pushed(3, 500)), turn()]
    assert mean_bytes_by_queue(turns) == {"parse": 150.0}
