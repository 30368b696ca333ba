"""What the handlers of archives (`warc`, `export`) share in one process: settings and sources."""

from collections.abc import Sequence

from manyhands.shared.logs import Logger
from manyhands.shared.settings import Settings
from manyhands.worker.jobs.registry import setup
from manyhands.worker.jobs.setup import ProcessSetup
from manyhands.worker.warc.reading import Damage
from manyhands.worker.warc.sources import Sources

# Made by `make_sources`.
SETTINGS: Settings
SOURCES: Sources
# Log lines about damaged parts, per job.
MOST_DAMAGES_LOGGED = 20


@setup
def make_sources(process: ProcessSetup) -> None:
    global SETTINGS, SOURCES
    SETTINGS = process.settings
    SOURCES = Sources(SETTINGS)
    process.resources.close_at_stop(SOURCES.close)


def log_damages(log: Logger, damages: Sequence[Damage]) -> None:
    """`log` names the source."""
    for damage in damages[:MOST_DAMAGES_LOGGED]:
        log.warning(
            "a part of an archive cannot be read",
            offset=damage.offset,
            end=damage.end,
            reason=damage.reason,
        )
