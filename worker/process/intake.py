"""What a worker process takes its jobs through: the seam between it and one kind of server."""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from manyhands.worker.jobs.source import Source
from manyhands.worker.service.link import Backlog, Family, Pushed, Ready, StagePulse
from manyhands.worker.sinks.sinks import Sinks


@dataclass(slots=True, frozen=True)
class IntakeEvents:
    """What the process hears: that the next pulse says something new, and that the server asks it
    for another state."""

    is_new: Callable[[], None]
    state_wanted: Callable[[str], None]


@dataclass(slots=True, frozen=True)
class IntakePulse:
    """Its part of a `Pulse`, and what is away that it cannot go on without."""

    wids: list[str]
    is_connected: bool
    unanswered: int
    fetch_silence_s: float
    stages: list[StagePulse]
    pushed: dict[str, Pushed] = field(default_factory=dict)
    waits_for: str = ""


class Intake(Protocol):
    """A source, and all that belongs to it. Called in the event loop's thread."""

    @property
    def source(self) -> Source: ...

    @property
    def kinds(self) -> frozenset[type]:
        """Of the records that its jobs can make: other sinks are not opened."""

    @property
    def is_draining(self) -> bool:
        """Whether it was told to take no more."""

    def make_services(self, sinks: Sinks) -> None:
        """Once, before it is started."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def drain(self) -> None:
        """Tell the server, if it wants to know, that no more jobs are taken."""

    def services(self) -> Iterable[tuple[str, Coroutine[Any, Any, None]]]:
        """What runs until it is cancelled, by name."""

    async def stop_feeding(self) -> None:
        """Begin nothing new; return when nothing is under way. Handlers still run."""

    async def close(self) -> None:
        """No handler runs any more: store everything."""

    def told(self, backlog: Backlog) -> None:
        """By the supervisor, every second."""

    async def ready(self) -> Ready:
        """Return when jobs are taken."""

    def pulse(self) -> IntakePulse: ...

    def families(self) -> Iterable[Family]:
        """Its metrics."""

    def announced(self) -> Mapping[str, object]:
        """What it takes, for the log."""
