"""The job of a load test, for our own worker: WORKER_HANDLERS=loadtest.load.handlers."""

import asyncio
import os
from pathlib import Path

from loadtest.load.ledger import DIRECTORY_VARIABLE, DONE_SUFFIX, RECORD, now_us
from manyhands import ProcessSetup, job, setup

# One write for the jobs of so many seconds: a call for each would cost more than the job.
WRITE_EVERY_S = 0.1


class _Book:
    """What this process has done. State: what is not written yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._unwritten = bytearray()

    def note(self, number: int, posted_us: int) -> None:
        if not self._unwritten:
            asyncio.get_running_loop().call_later(WRITE_EVERY_S, self._write)
        self._unwritten += RECORD.pack(number, posted_us, now_us())

    async def close(self) -> None:
        self._write()

    def _write(self) -> None:
        with self._path.open("ab") as file:
            file.write(self._unwritten)
        self._unwritten.clear()


_book: _Book


@setup
def open_book(process: ProcessSetup) -> None:
    global _book
    _book = _Book(Path(os.environ[DIRECTORY_VARIABLE]) / f"worker-{os.getpid()}{DONE_SUFFIX}")
    process.resources.close_at_stop(_book.close)


@job("add")
async def add(a: int, b: int) -> None:
    """`a` is the number of the job, `b` the time at which it was posted, in µs."""
    _book.note(a, b)
