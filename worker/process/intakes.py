"""Which kind of intake the settings ask for."""

from manyhands.shared.settings import Settings
from manyhands.worker.jobs.setup import ProcessSetup
from manyhands.worker.process.faktory_intake import FaktoryIntake
from manyhands.worker.process.intake import Intake, IntakeEvents
from manyhands.worker.process.kafka_intake import KafkaIntake
from manyhands.worker.service.stages import ProcessGroup


def make_intake(
    settings: Settings,
    group: ProcessGroup,
    setup: ProcessSetup,
    connections: int,
    events: IntakeEvents,
    *,
    process_id: str,
) -> Intake:
    if settings.worker.source:
        return KafkaIntake(settings, group, process_id)
    return FaktoryIntake(settings, group, setup, connections, events)
