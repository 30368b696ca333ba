"""`export`: one WARC, WAT or WET file → one Parquet file, without the parse stage.

Its name follows from the source's: a repeat writes over what the first run wrote.
"""

import asyncio
import time

from manyhands.shared.closing import closed_on_error
from manyhands.shared.errors import InvalidUrl
from manyhands.shared.jobtypes import EXPORT_QUEUE
from manyhands.shared.settings import WarcSettings
from manyhands.shared.warc_places import FileAt, InvalidPlace, ObjectAt, parse_destination
from manyhands.worker.handlers import archives
from manyhands.worker.handlers.outcomes import as_outcomes
from manyhands.worker.jobs.context import JobContext
from manyhands.worker.jobs.registry import job
from manyhands.worker.net.fetcher import PermanentFetchError
from manyhands.worker.service.stages import CAPS
from manyhands.worker.warc.exporting import Exported, export_archive, file_name
from manyhands.worker.warc.frames import NotAnArchive
from manyhands.worker.warc.outputs import open_output
from manyhands.worker.warc.streams import ByteStream
from manyhands.worker.warc.threads import in_thread

# If the stage was given more slots, the rest wait here.
AT_ONCE = asyncio.Semaphore(CAPS["export"])
# Between two log lines about progress, in seconds.
TELL_S = 10.0


@job("export", queue=EXPORT_QUEUE)
async def export(source: str, destination: str, context: JobContext) -> None:
    async with AT_ONCE:
        with as_outcomes(NotAnArchive):
            place = _parsed(destination)
            shown, stream = archives.SOURCES.open(source)
            telling = _Telling(context, shown)
            exported = await in_thread(
                lambda: _run(stream, place, file_name(shown), telling, archives.SETTINGS.warc),
                stream.abort,
            )
    telling.end(exported, f"{place}/{file_name(shown)}")


def _parsed(destination: str) -> FileAt | ObjectAt:
    try:
        return parse_destination(destination)
    except (InvalidPlace, InvalidUrl) as error:
        raise PermanentFetchError(f"not a destination: {error}") from None


def _run(
    stream: ByteStream,
    place: FileAt | ObjectAt,
    name: str,
    telling: "_Telling",
    settings: WarcSettings,
) -> Exported:
    with closed_on_error(stream):
        output = open_output(place, name, settings)
    return export_archive(stream, output, telling.progress)


class _Telling:
    """State: when progress was last logged."""

    def __init__(self, context: JobContext, source: str) -> None:
        self._log = context.log.bind(source=source)
        self._told_at = time.monotonic()

    def progress(self, exported: Exported) -> None:
        now = time.monotonic()
        if now - self._told_at >= TELL_S:
            self._told_at = now
            self._log.info(
                "exporting an archive",
                offset=exported.offset,
                rows=exported.rows,
            )

    def end(self, exported: Exported, name: str) -> None:
        archives.log_damages(self._log, exported.damages)
        self._log.info(
            "exported an archive",
            name=name,
            rows=exported.rows,
            damages=len(exported.damages),
        )
