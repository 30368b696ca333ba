"""A process that writes to a sink until there is no more room, makes room, and goes on.

`python -m tests.support.full_disk_writer KIND DIRECTORY` writes in a directory that is a small
disk, on which the file `filler` can go; without one, its own files may not grow beyond a limit. It
tells what is there in the end: how often each id, and how many batches failed.
"""

import asyncio
import json
import random
import resource
import sys
from pathlib import Path

from manyhands.shared.crawl.store.errors import StateError
from manyhands.shared.logs import configure_logs
from manyhands.worker.records import Record
from manyhands.worker.sinks.files.file_sink import FileSink
from tests.support.file_sinks import KINDS, capture
from tests.support.sink_records import page

BATCH = 10
RECORD_BYTES = 20_000
FILE_LIMIT = 2 * 1024 * 1024
MOST_BATCHES = 1000
# So often the same batch fails before there is room again.
FAILURES = 5
BATCHES_BEHIND = 10


def record(kind: str, number: int) -> Record:
    """One that cannot be made smaller."""
    noise = random.Random(number).randbytes(RECORD_BYTES)
    if kind == "warc":
        return capture(number, body=noise)
    return page(number, title=noise.decode("latin-1"))


class Room:
    """State: the file that takes up the room, if it is a disk of our own."""

    def __init__(self, directory: Path) -> None:
        self._filler = directory / "filler"
        self._is_disk = self._filler.exists()
        if not self._is_disk:
            self._limit(FILE_LIMIT)

    def make(self) -> None:
        if self._is_disk:
            self._filler.unlink()
        else:
            self._limit(resource.RLIM_INFINITY)

    def _limit(self, size: int) -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))


async def write_until_full(sink: FileSink, kind: str, room: Room) -> tuple[int, int]:
    """How many records were written in all, and how many batches failed."""
    failures = 0
    batches_left = MOST_BATCHES
    number = 0
    while batches_left:
        batch = [record(kind, number + one) for one in range(BATCH)]
        try:
            await sink.write(batch)
        except (OSError, StateError):
            failures += 1
            if failures == FAILURES:
                room.make()
                batches_left = BATCHES_BEHIND
        else:
            number += BATCH
            batches_left -= 1
    return number, failures


async def run(kind: str, directory: Path) -> None:
    room = Room(directory)
    sink = KINDS[kind].make(KINDS[kind].local.format(directory))
    await sink.open()
    records, failures = await write_until_full(sink, kind, room)
    await sink.close()
    ids = KINDS[kind].ids(directory)
    sys.stdout.write(json.dumps({"records": records, "failures": failures, "ids": ids}))


if __name__ == "__main__":
    configure_logs("error")
    asyncio.run(run(sys.argv[1], Path(sys.argv[2])))
