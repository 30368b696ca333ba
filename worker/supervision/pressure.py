"""Back-pressure: how much a stage may do while the queue that it fills is long. Pure.

Below the soft limit it works at full pace, at the hard limit it stops, and between them the pace is
the square of the room left. The square falls fast at first and is flat at its end: a stage that is
a hundred times faster than the next one settles where a tenth of the room is left, not a hundredth,
so that what is in flight still fits; and there a change of the queue moves the pace little, so that
one check a second does not make it swing. It has no step, and a trickle remains up to the hard
limit.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from manyhands.shared.errors import ConfigError

# How full a queue is: 0 is empty, 1 is at its soft limit, 2 at its hard one.
AT_SOFT, AT_HARD = 1.0, 2.0
# A logged state ends only when the queue is well out of it: one that hovers around a limit is
# logged once, not each time.
FREE_AGAIN_BELOW = 0.5
GOES_ON_BELOW = 1.9


@dataclass(slots=True, frozen=True)
class Limits:
    """On any one queue."""

    soft_jobs: int
    hard_jobs: int
    soft_bytes: int
    hard_bytes: int

    def __post_init__(self) -> None:
        for unit, soft, hard in (
            ("JOBS", self.soft_jobs, self.hard_jobs),
            ("BYTES", self.soft_bytes, self.hard_bytes),
        ):
            if not 0 < soft < hard:
                raise ConfigError(
                    f"PRESSURE_SOFT_{unit}={soft} must be above 0 and below "
                    f"PRESSURE_HARD_{unit}={hard}"
                )


class State(StrEnum):
    FREE = "free"
    SLOWED = "slowed"
    STOPPED = "stopped"


@dataclass(slots=True, frozen=True)
class PressureEvent:
    """The state of a stage has changed, because of what is in the queue that it fills."""

    stage: str
    state: State
    queue: str
    jobs: int
    size_bytes: int | None
    pace: float


def pace_for(jobs: int, size_bytes: float | None, limits: Limits) -> float:
    """The share of its slots that a stage may use while the queue that it fills has this size. The
    worse of jobs and bytes counts; unknown bytes are None, and do not."""
    room = AT_HARD - _fill(jobs, size_bytes, limits)
    return min(1.0, max(0.0, room)) ** 2


class Pressure:
    """Called once a second. State: the last logged state of each stage, and how often each was
    entered."""

    def __init__(self, limits: Limits) -> None:
        self.states: dict[str, State] = {}
        self.entered: dict[str, Counter[str]] = {}
        self._limits = limits

    def paces(
        self,
        feeds: Mapping[str, str],
        jobs_by_queue: Mapping[str, int],
        mean_bytes_by_queue: Mapping[str, float],
    ) -> tuple[dict[str, float], list[PressureEvent]]:
        """The pace of each stage, and what to log. `feeds` names the queue that a stage fills,
        empty for none; the mean size is that of the jobs that this service pushed there."""
        paces = dict.fromkeys(feeds, 1.0)
        events = []
        for stage, queue in feeds.items():
            if not queue:
                continue
            jobs = jobs_by_queue.get(queue, 0)
            mean_bytes = mean_bytes_by_queue.get(queue)
            size_bytes = None if mean_bytes is None else round(jobs * mean_bytes)
            paces[stage] = pace_for(jobs, size_bytes, self._limits)
            before = self.states.get(stage, State.FREE)
            state = _next_state(before, _fill(jobs, size_bytes, self._limits))
            self.states[stage] = state
            entered = self.entered.setdefault(stage, Counter(dict.fromkeys(map(str, State), 0)))
            if state is not before:
                entered[str(state)] += 1
                event = PressureEvent(stage, state, queue, jobs, size_bytes, paces[stage])
                events.append(event)
        return paces, events


def _next_state(before: State, fill: float) -> State:
    """Worse at once, better only when it is clearly so."""
    if fill >= AT_HARD or (before is State.STOPPED and fill >= GOES_ON_BELOW):
        return State.STOPPED
    if fill > AT_SOFT or (before is not State.FREE and fill >= FREE_AGAIN_BELOW):
        return State.SLOWED
    return State.FREE


def _fill(jobs: int, size_bytes: float | None, limits: Limits) -> float:
    fill = _fill_of(jobs, limits.soft_jobs, limits.hard_jobs)
    if size_bytes is not None:
        fill = max(fill, _fill_of(size_bytes, limits.soft_bytes, limits.hard_bytes))
    return fill


def _fill_of(size: float, soft: int, hard: int) -> float:
    return size / soft if size <= soft else AT_SOFT + (size - soft) / (hard - soft)
