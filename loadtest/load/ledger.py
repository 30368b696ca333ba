"""The two books of a load test: what clients were told of each job, and which jobs were done.

The load generator numbers its jobs and writes down every answer; the worker's handler writes down
every job that it did. Each process appends to files of its own in one directory, so nobody waits
for anybody. Times are in µs of the monotonic clock, which all processes of a machine share.
"""

import struct
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from pathlib import Path
from typing import IO, NamedTuple

# Names the directory to the processes that write.
DIRECTORY_VARIABLE = "LOADTEST_LEDGER"
ANSWERS_SUFFIX = ".answers"
DONE_SUFFIX = ".done"
# Number of the job, when it was posted, when it was done.
RECORD = struct.Struct("<QQQ")


class Outcome(StrEnum):
    """What a client knows of a job after the answer."""

    QUEUED = "queued"
    REFUSED = "refused"
    # The answer says so: the job may be queued or not.
    UNKNOWN = "unknown"
    # No answer, or one that says nothing of the job.
    BROKEN = "broken"
    # The client did not wait for the answer.
    ABANDONED = "abandoned"


class Answer(NamedTuple):
    """Jobs of one request that were answered alike; they are numbered one after the other."""

    kind: str
    outcome: Outcome
    first: int
    jobs: int
    posted_us: int
    answered_us: int

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + self.jobs)


class Done(NamedTuple):
    number: int
    posted_us: int
    done_us: int


@dataclass(frozen=True, slots=True)
class Books:
    """Everything that was written down."""

    answers: list[Answer]
    done: list[Done]


def now_us() -> int:
    return time.monotonic_ns() // 1000


def answers_of(
    kind: str, first: int, outcomes: Iterable[Outcome], posted_us: int, answered_us: int
) -> Iterator[Answer]:
    """What one request brought: `outcomes` are those of its jobs, in their order."""
    for outcome, alike in groupby(outcomes):
        jobs = len(list(alike))
        yield Answer(kind, outcome, first, jobs, posted_us, answered_us)
        first += jobs


def write_answers(file: IO[str], answers: Iterable[Answer]) -> None:
    for answer in answers:
        file.write(" ".join(map(str, answer)) + "\n")


def read_answers(directory: Path) -> list[Answer]:
    found = []
    for path in sorted(directory.glob(f"*{ANSWERS_SUFFIX}")):
        for line in path.read_text().splitlines():
            kind, outcome, *numbers = line.split()
            found.append(Answer(kind, Outcome(outcome), *map(int, numbers)))
    return found


class DoneTail:
    """Reads on from where it was. State: how far each file has been read."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._positions: dict[Path, int] = {}

    def read(self) -> list[Done]:
        """What was written since the last call."""
        found: list[Done] = []
        for path in sorted(self._directory.glob(f"*{DONE_SUFFIX}")):
            position = self._positions.get(path, 0)
            with path.open("rb") as file:
                file.seek(position)
                data = file.read()
            # The last record may be half written.
            whole = len(data) - len(data) % RECORD.size
            self._positions[path] = position + whole
            found += [Done(*record) for record in RECORD.iter_unpack(data[:whole])]
        return found


def clear(directory: Path) -> None:
    """Make the directory, or remove what an earlier load test has written there."""
    directory.mkdir(parents=True, exist_ok=True)
    for suffix in (ANSWERS_SUFFIX, DONE_SUFFIX):
        for path in directory.glob(f"*{suffix}"):
            path.unlink()
