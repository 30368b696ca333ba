"""What a stage may have besides its handlers: something that runs as long as the process does, and
decides from which queues jobs are taken. The setup hook of the stage's handlers registers it."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from manyhands.shared.jobs import Job
from manyhands.shared.settings import Settings
from manyhands.worker.service.link import Family
from manyhands.worker.sinks.sinks import Sinks

# Returns when the server has all of them.
Push = Callable[[Sequence[Job]], Awaitable[None]]


class StageService(Protocol):
    """All methods are called in the event loop's thread."""

    async def run(self) -> None:
        """Until cancelled."""

    def set_pace(self, pace: float) -> None:
        """Back-pressure: the share of its slots that it may use."""

    async def stop_feeding(self) -> None:
        """Begin nothing new by itself; return when nothing is under way. Handlers still run."""

    async def close(self) -> None:
        """No handler runs any more: write everything down."""

    def families(self) -> Iterable[Family]:
        """Its metrics, read every five seconds."""


@dataclass(slots=True, frozen=True)
class StageNeeds:
    """What a service gets: the queues that it sets are those that jobs are taken from. `sinks` are
    all of the process, which may be none."""

    settings: Settings
    slots: int
    push: Push
    sinks: Sinks
    set_queues: Callable[[Sequence[str]], None]
