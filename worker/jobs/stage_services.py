"""What a stage may have besides its handlers: a service that runs as long as the process, and
chooses the queues that jobs are taken from. The setup hook of the stage's handlers registers it."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from manyhands.shared.jobs import Job
from manyhands.shared.settings import Settings
from manyhands.worker.service.link import Family, SlowSink
from manyhands.worker.sinks.sinks import Sinks

# Returns when the server has all of them.
Push = Callable[[Sequence[Job]], Awaitable[None]]


class StageService(Protocol):
    """All methods are called in the event loop's thread."""

    async def run(self) -> None:
        """Until cancelled."""

    def set_pace(self, pace: float) -> None:
        """Back-pressure: the share of its slots that it may use."""

    def found_fetch_queues(self, names: Sequence[str]) -> None:
        """Queues of fetch jobs that have some, of whatever number of shards."""

    def told_slow_sink(self, sink: SlowSink | None) -> None:
        """The slowest sink of all processes beside this one, every second while it is slow."""

    async def stop_feeding(self) -> None:
        """Begin nothing new; return when nothing is under way. Handlers still run."""

    async def close(self) -> None:
        """No handler runs any more: store everything."""

    def families(self) -> Iterable[Family]:
        """Its metrics, read every five seconds."""

    def waits_for(self) -> str:
        """What is away that it cannot go on without, for people; empty: nothing."""


@dataclass(slots=True, frozen=True)
class StageNeeds:
    """What a service gets. `state` is where crawls are kept, empty if nowhere. Jobs are taken from
    the queues that it sets, and fetch jobs from those that `set_fetch_queues` gets, if the process
    takes any. `sinks` are all those of the process, maybe none."""

    settings: Settings
    state: tuple[str, ...]
    slots: int
    push: Push
    sinks: Sinks
    set_queues: Callable[[Sequence[str]], None]
    set_fetch_queues: Callable[[Sequence[str]], None] | None
