"""Alive and ready: what each state of the children means for the service."""

from dataclasses import replace

import pytest

from manyhands.worker.supervision.health import MOST_FETCH_SILENCE_S, liveness, readiness
from manyhands.worker.supervision.status import ChildState
from tests.support.service_status import child, service

RUNNING = (ChildState.STARTING, ChildState.READY, ChildState.BUSY, ChildState.DRAINING)


def test_a_service_that_is_well_is_alive_and_ready():
    status = service(child("fetch-0"), child("parse-0"))
    assert liveness(status).is_ok
    assert readiness(status).is_ok


def test_a_service_without_children_yet_is_alive_and_not_ready():
    assert liveness(service()).is_ok
    assert readiness(service()).reasons == ["starting"]


@pytest.mark.parametrize("state", RUNNING)
def test_a_child_that_runs_keeps_the_service_alive(state):
    assert liveness(service(child(state=state))).is_ok


@pytest.mark.parametrize("state", [ChildState.WAITING, ChildState.STOPPED])
def test_without_a_child_that_runs_the_service_is_dead(state):
    assert liveness(service(child(state=state))).reasons == ["no child runs"]
    assert liveness(service(child("a-0", state=state), child("a-1"))).is_ok


def test_a_child_that_hangs_is_named():
    status = service(child("a-0", state=ChildState.HUNG, silence_s=130.0), child("a-1"))
    assert liveness(status).reasons == ["a-0 (pid 4711) hangs: its loop has not turned for 130 s"]


def test_a_busy_child_is_alive_however_long_it_computes():
    assert liveness(service(child(state=ChildState.BUSY, silence_s=500.0))).is_ok


def test_a_fetch_that_is_not_answered_for_a_minute_is_a_reason():
    status = service(child(fetch_silence_s=MOST_FETCH_SILENCE_S + 1))
    assert liveness(status).reasons == [
        "worker-0 (pid 4711) has waited for an answer to a FETCH for 61 s"
    ]
    assert liveness(service(child(fetch_silence_s=MOST_FETCH_SILENCE_S))).is_ok


def test_a_server_that_is_away_makes_it_not_ready_but_not_dead():
    status = service(child(is_connected=False, fetch_silence_s=100.0), queues_age_s=None)
    assert liveness(status).is_ok
    assert readiness(status).reasons == ["worker: not connected to the server"]


def test_a_child_that_can_open_nothing_is_not_ready_and_says_so():
    status = service(child("a-0", is_out_of_files=True))
    assert liveness(status).is_ok
    assert readiness(status).reasons == ["a: it can open no more files or connections (ulimit -n)"]
    assert readiness(service(child("a-0", is_out_of_files=True), child("a-1"))).is_ok


def test_ready_needs_one_ready_child_of_every_group():
    starting = child("parse-0", state=ChildState.STARTING, is_connected=False)
    hung = child("parse-1", state=ChildState.HUNG)
    assert readiness(service(child("fetch-0"), starting, hung)).reasons == [
        "parse: no child is ready (starting, hung)"
    ]
    assert readiness(service(child("fetch-0"), starting, child("parse-1"))).is_ok


def test_two_groups_that_are_not_ready_are_two_reasons():
    status = service(child("a-0", is_connected=False), child("b-0", state=ChildState.BUSY))
    assert readiness(status).reasons == [
        "a: not connected to the server",
        "b: no child is ready (busy)",
    ]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"is_stopping": True}, "stopping"), ({"is_quiet": True}, "quiet: it takes no more jobs")],
)
def test_a_service_that_drains_is_alive_and_not_ready(changes, reason):
    status = service(child(), **changes)
    assert liveness(status).is_ok
    assert readiness(status).reasons == [reason]


def test_a_service_that_stops_is_alive_although_its_children_have_gone():
    assert liveness(service(child(state=ChildState.STOPPED), is_stopping=True)).is_ok


def test_during_a_roll_the_old_and_the_new_child_count():
    old = child(state=ChildState.DRAINING)
    assert readiness(service(old, child(incarnation=2))).is_ok
    assert not readiness(service(old, child(incarnation=2, state=ChildState.STARTING))).is_ok


def test_a_damaged_shard_is_named_and_no_reason_not_to_be_ready():
    damaged = ["gen-1/shard-03.db: it is damaged"]
    verdict = readiness(replace(service(child("a-0")), damaged_shards=damaged))
    assert (verdict.is_ok, verdict.damaged_shards) == (True, damaged)
