"""The stages of a service: each over all processes that run it, and what waits for it. Pure."""

from dataclasses import dataclass

from manyhands.worker.supervision.status import ServiceStatus

# The server is asked every second; an older answer does not show what waits now.
STALE_AFTER_S = 30.0


@dataclass(slots=True, frozen=True)
class StageSummary:
    """The server's figures are None while it does not report them."""

    name: str
    process_type: str
    active: int
    slots: int
    pace: float
    queue_depth: int | None
    queue_lag_s: float | None


def summarize_stages(status: ServiceStatus) -> list[StageSummary]:
    """Of every stage that a child has named so far."""
    queues: dict[tuple[str, str], list[str]] = {}
    active: dict[tuple[str, str], int] = {}
    slots: dict[tuple[str, str], int] = {}
    for child in status.children:
        for stage in child.stages:
            key = child.process_type, stage.name
            queues[key] = stage.queues
            slots[key] = slots.get(key, 0) + min(stage.cap, child.slots)
        for turn in child.turns:
            key = child.process_type, turn.name
            active[key] = active.get(key, 0) + turn.running
    return [
        StageSummary(
            name,
            process_type,
            active.get((process_type, name), 0),
            slots[process_type, name],
            status.paces.get(name, 1.0),
            _depth(status, names),
            _lag_s(status, names),
        )
        for (process_type, name), names in queues.items()
    ]


def _depth(status: ServiceStatus, queues: list[str]) -> int | None:
    if not is_fresh(status):
        return None
    return sum(status.queues.get(queue, 0) for queue in queues)


def _lag_s(status: ServiceStatus, queues: list[str]) -> float | None:
    if not is_fresh(status):
        return None
    return max((status.queue_lag_s.get(queue, 0.0) for queue in queues), default=0.0)


def is_fresh(status: ServiceStatus) -> bool:
    """Whether the queue lengths are recent."""
    return status.queues_age_s is not None and status.queues_age_s <= STALE_AFTER_S
