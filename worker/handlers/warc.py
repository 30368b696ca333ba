"""`warc`: a chunk of a WARC or WAT file → `parse_pages` jobs with its pages, and one `warc` job for
what comes after it.

All their ids, and those of the records, follow from the job's own id and from the file: a repeat
makes the same again. Only HTML with a 2xx status is parsed; the log counts everything else. Of a
WAT file, title and links are parsed. A WET file has only text, which the parse stage cannot use:
`export` is for those.
"""

import asyncio
import re

from manyhands.shared.crawl.messages import NO_ANSWER, FetchedPage, PagesMessage, in_jobs, pages_job
from manyhands.shared.jobs import Job
from manyhands.shared.jobtypes import JOB_TYPES, PARSE_QUEUE, WARC_QUEUE, WarcArguments
from manyhands.worker.handlers import archives
from manyhands.worker.handlers.outcomes import as_outcomes
from manyhands.worker.jobs.context import JobContext
from manyhands.worker.jobs.registry import job
from manyhands.worker.service.stages import CAPS
from manyhands.worker.warc.chunks import Chunk, ChunkReader
from manyhands.worker.warc.frames import NotAnArchive
from manyhands.worker.warc.reading import Position
from manyhands.worker.warc.streams import ByteStream
from manyhands.worker.warc.threads import in_thread

# If the stage was given more slots, the rest wait here.
AT_ONCE = asyncio.Semaphore(CAPS["warc"])

_NEXT_ID = re.compile(r"(.+)\.at\d+\.\d+")


@job("warc", queue=WARC_QUEUE)
async def warc(source: str, context: JobContext, offset: int = 0, skip: int = 0) -> None:
    start = Position(offset, skip)
    async with AT_ONCE:
        with as_outcomes(NotAnArchive):
            shown, stream = archives.SOURCES.open(source)
            chunk = await in_thread(lambda: _read(shown, stream, start), stream.abort)
    _tell(context, shown, start, chunk)
    context.push(*_parse_jobs(chunk.pages, context.id))
    if chunk.next is not None:
        # Last: once it is queued, so are those before it.
        context.push(_next_job(source, chunk.next, context.id))


def _read(shown: str, stream: ByteStream, start: Position) -> Chunk:
    reader = ChunkReader(
        shown,
        max_bytes=archives.SETTINGS.fetch.max_bytes,
        truncate_bytes=archives.SETTINGS.fetch.truncate_bytes,
    )
    try:
        return reader.read(stream, start)
    finally:
        stream.close()


def _parse_jobs(pages: list[FetchedPage], job_id: str) -> list[Job]:
    return [
        pages_job(
            PagesMessage.model_construct(answer_to=NO_ANSWER, pages=together),
            PARSE_QUEUE,
            f"{job_id}.{number}",
        )
        for number, together in enumerate(in_jobs(pages, lambda page: len(page.body)))
    ]


def _next_job(source: str, at: Position, job_id: str) -> Job:
    kind = JOB_TYPES["warc"]
    # So that ids do not grow with every chunk.
    made = _NEXT_ID.fullmatch(job_id)
    first_id = made[1] if made is not None else job_id
    return Job(
        jobtype=kind.name,
        args=WarcArguments(source=source, offset=at.offset, skip=at.skip).to_list(),
        queue=WARC_QUEUE,
        jid=f"{first_id}.at{at.offset}.{at.skip}",
        retry=kind.retry,
        reserve_for=kind.reserve_for_s,
    )


def _tell(context: JobContext, source: str, start: Position, chunk: Chunk) -> None:
    archives.log_damages(context.log.bind(source=source), chunk.damages)
    if chunk.bad_digests:
        context.log.warning(
            "records of an archive have wrong digests",
            source=source,
            records=len(chunk.bad_digests),
            offsets=chunk.bad_digests[: archives.MOST_DAMAGES_LOGGED],
        )
    context.log.info(
        "decoded a part of an archive",
        source=source,
        offset=start.offset,
        next_offset=None if chunk.next is None else chunk.next.offset,
        damages=len(chunk.damages),
        records=dict(chunk.counts),
    )
