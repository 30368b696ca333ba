"""How a process splits its share of connections."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.shared.settings import FaktorySettings
from manyhands.worker.source.lane_plan import FLEET_CONNECTIONS, LanePlan, plan_lanes

slots = st.integers(1, 20_000)


def test_a_plan_counts_the_heartbeat_too():
    assert LanePlan(fetch=3, command=2).connections == 6


@given(st.integers(3, 1800), slots, st.integers(0, 3000))
def test_a_plan_has_one_lane_of_each_and_never_more_than_its_share(share, slots, used):
    plan = plan_lanes(share, slots, used)
    assert plan.fetch >= 1
    assert plan.command >= 1
    assert plan.connections <= share


def test_the_smallest_share_that_the_settings_allow_is_kept():
    field = FaktorySettings.model_fields["connections"]
    smallest = next(limit.ge for limit in field.metadata if hasattr(limit, "ge"))
    assert plan_lanes(smallest, 500, 0).connections <= smallest


@given(st.integers(3, 1800), slots, st.integers(0, 1799))
def test_a_plan_leaves_room_for_the_rest_of_the_fleet(share, slots, used):
    plan = plan_lanes(share, slots, used)
    assert plan.connections <= max(3, FLEET_CONNECTIONS - used)


@given(st.integers(3, 1800), slots, st.integers(0, 3000), st.integers(0, 500))
def test_a_fuller_server_never_gets_more_connections(share, slots, used, more):
    fuller = plan_lanes(share, slots, used + more)
    assert fuller.connections <= plan_lanes(share, slots, used).connections


@pytest.mark.parametrize(("used", "fewer"), [(0, False), (1600, False), (1750, True), (1799, True)])
def test_a_worker_takes_fewer_connections_near_the_limit(used, fewer):
    plan = plan_lanes(96, 500, used)
    assert (plan.connections < plan_lanes(96, 500, 0).connections) is fewer


@given(st.integers(3, 1800), slots, st.integers(0, 3000))
def test_no_lane_is_opened_that_no_slot_could_use(share, slots, used):
    plan = plan_lanes(share, slots, used)
    assert plan.fetch <= slots
    assert plan.command <= slots


def test_a_large_share_is_used_for_both_kinds():
    plan = plan_lanes(96, 5000, 0)
    assert plan.fetch >= 10
    assert plan.command >= 10
    assert plan.connections > 48
