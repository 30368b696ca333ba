"""What a supervisor would know, made up for the tests of what it shows."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from manyhands.worker.service.link import StagePulse, StageReport
from manyhands.worker.supervision.status import (
    ChildState,
    ChildStatus,
    Event,
    RollStatus,
    ServiceStatus,
)

STARTED_AT = 1_700_000_000.0


def child(process_id: str = "worker-0", **changes: Any) -> ChildStatus:
    """A child that is well; its type is the first part of its id."""
    well = ChildStatus(
        process_type=process_id.rpartition("-")[0],
        process_id=process_id,
        incarnation=1,
        state=ChildState.READY,
        slots=500,
        pid=4711,
        is_connected=True,
    )
    return replace(well, **changes)


def stage(name: str, *queues: str, cap: int = 500) -> StageReport:
    return StageReport(name, list(queues or (name,)), 1, cap, "")


def turn(name: str, running: int) -> StagePulse:
    return StagePulse(name, running, 0, 0)


def service(*children: ChildStatus, **changes: Any) -> ServiceStatus:
    """A service that has been well for a minute."""
    events: Sequence[Event] = [Event(STARTED_AT, "", "started")]
    well = ServiceStatus(
        started_at=STARTED_AT,
        uptime_s=60.0,
        is_quiet=False,
        is_stopping=False,
        children=children,
        roll=RollStatus(),
        queues={},
        queue_lag_s={},
        queues_age_s=0.5,
        paces={},
        memory_limit_bytes=None,
        events=events,
    )
    return replace(well, **changes)
