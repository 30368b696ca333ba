"""What a module of handlers gets before its first job: settings, and places for what it keeps open.

Importing such a module reads no settings and opens nothing; its `@setup` hook does.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from manyhands.shared.settings import Settings
from manyhands.worker.jobs.resources import Resources
from manyhands.worker.jobs.stage_services import StageNeeds, StageService
from manyhands.worker.net.byte_budget import ByteBudget


@dataclass(slots=True, frozen=True)
class ProcessSetup:
    """One process, as its handlers' hooks see it. `resources` are closed when it stops,
    `stage_services` are by the stage's name, and `page_budget` bounds the bytes of all pages that
    the process holds."""

    settings: Settings
    page_budget: ByteBudget
    resources: Resources = field(default_factory=Resources)
    stage_services: dict[str, Callable[[StageNeeds], StageService]] = field(default_factory=dict)

    @staticmethod
    def of(settings: Settings) -> "ProcessSetup":
        return ProcessSetup(settings, ByteBudget(settings.fetch.in_flight_bytes))


SetupHook = Callable[[ProcessSetup], None]
