"""Which kind of intake the settings ask for."""

from collections.abc import Callable
from typing import cast

from manyhands.shared.extras import import_extra
from manyhands.shared.settings import Settings
from manyhands.worker.jobs.setup import ProcessSetup
from manyhands.worker.process.faktory_intake import FaktoryIntake
from manyhands.worker.process.intake import Intake, IntakeEvents
from manyhands.worker.service.stages import ProcessGroup

# Loaded when it is asked for: few have its package.
KAFKA_INTAKE = "manyhands.worker.process.kafka_intake"


def make_intake(
    settings: Settings,
    group: ProcessGroup,
    setup: ProcessSetup,
    connections: int,
    events: IntakeEvents,
    *,
    process_id: str,
) -> Intake:
    if not settings.worker.source:
        return FaktoryIntake(settings, group, setup, connections, events)
    module = import_extra(KAFKA_INTAKE, "WORKER_SOURCE: kafka", "kafka")
    kafka_intake = cast("Callable[[Settings, ProcessGroup, str], Intake]", module.KafkaIntake)
    return kafka_intake(settings, group, process_id)
