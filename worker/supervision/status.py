"""What the supervisor knows of its children, as plain values: for `/status`, `/readyz` and the
metrics. Pure: structs only, filled by worker/supervision/supervisor.py."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from manyhands.worker.service.link import Figures, StagePulse, StageReport

MOST_EVENTS = 200


class ChildState(StrEnum):
    """`busy`: the loop does not turn, but the process is not given up. `stopped`: it was ended
    through the server's web page, so it is not started again."""

    STARTING = "starting"
    READY = "ready"
    BUSY = "busy"
    HUNG = "hung"
    DRAINING = "draining"
    WAITING = "waiting to restart"
    STOPPED = "stopped"


@dataclass(slots=True, frozen=True)
class ChildStatus:
    """One child, or a slot whose child is gone (then without pid). During a roll, the old and the
    new one have the same process_id and differ in their incarnation."""

    process_type: str
    process_id: str
    incarnation: int
    state: ChildState
    slots: int
    pid: int | None = None
    uptime_s: float = 0.0
    is_connected: bool = False
    is_out_of_files: bool = False
    # What is away that its stages cannot go on without; empty: nothing.
    waits_for: str = ""
    in_hand: int = 0
    unanswered: int = 0
    rss_bytes: int = 0
    # Since its event loop last gave a sign of life.
    silence_s: float = 0.0
    # Since a FETCH was last answered, while an answer is due.
    fetch_silence_s: float = 0.0
    loop_lag_s: float = 0.0
    # Of its slot, not of this one process.
    restarts: int = 0
    hangs: int = 0
    is_crash_looping: bool = False
    restart_in_s: float = 0.0
    last_exit: str = ""
    # As it resolved them (empty until it is ready), and what they do now.
    stages: Sequence[StageReport] = ()
    turns: Sequence[StagePulse] = ()


class RollState(StrEnum):
    NONE = "none"
    ROLLING = "rolling"
    DONE = "done"
    FAILED = "failed"


@dataclass(slots=True, frozen=True)
class RollStatus:
    """The last rolling restart: how many children of how many are replaced."""

    state: RollState = RollState.NONE
    replaced: int = 0
    of: int = 0
    is_another_wanted: bool = False


@dataclass(slots=True, frozen=True)
class Event:
    """`at` is in seconds since 1970; `process_id` is empty for the service as a whole."""

    at: float
    process_id: str
    what: str


@dataclass(slots=True, frozen=True)
class ServiceStatus:
    # Seconds since 1970.
    started_at: float
    uptime_s: float
    is_quiet: bool
    is_stopping: bool
    children: Sequence[ChildStatus]
    roll: RollStatus
    # Jobs waiting by queue, and the age of the oldest, of the queues that the children's stages
    # name; as the server reported `queues_age_s` ago (None: not yet).
    queues: dict[str, int]
    queue_lag_s: dict[str, float]
    queues_age_s: float | None
    # By stage: how much of its slots back-pressure leaves it.
    paces: dict[str, float]
    # Of one child; None when there is none.
    memory_limit_bytes: int | None
    events: Sequence[Event]
    # Rolling restarts that were begun.
    rolls: int = 0
    # A sentence about each shard of the crawls whose file is damaged.
    damaged_shards: Sequence[str] = ()
    # By stage and state: how often back-pressure has slowed it, stopped it and let it go again.
    pressure_events: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


class FiguresKeeper(Protocol):
    """Receives the children's figures. After each restart a process_id has a new incarnation, whose
    counters begin at 0; during a roll it has two for a while."""

    def keep(
        self, process_type: str, process_id: str, incarnation: int, figures: Figures
    ) -> None: ...

    def ended(self, process_type: str, process_id: str, incarnation: int) -> None:
        """No more will come; the last figures were those of its end, if it had time for them."""


@dataclass(slots=True)
class EventLog:
    """What happened of late, the oldest first."""

    events: deque[Event] = field(default_factory=lambda: deque(maxlen=MOST_EVENTS))

    def add(self, at: float, process_id: str, what: str) -> None:
        self.events.append(Event(at, process_id, what))
