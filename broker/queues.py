"""One queue: its head in memory, the rest on disk, and who waits for a job of it."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from broker.jobs import StoredJob, from_row
from broker.reading import Reader
from broker.schema import SEQUENCE_BITS

# Per queue; with 64 queues full to the brim that is a quarter of a gigabyte.
HEAD_BYTES = 4 * 1024 * 1024
PAGE_JOBS = 2000
# Read on before the head is empty, so that a reader who takes many at once finds them.
LOW_JOBS = 200


class Client(Protocol):
    """A connection, as far as those who hand out jobs care."""

    @property
    def owner(self) -> str | None: ...

    @property
    def wid(self) -> str: ...

    def deliver(self, job: StoredJob | None) -> None:
        """The answer to a FETCH that had to wait: a job, or nothing."""

    def can_take(self) -> bool:
        """False while it does not read what it is sent."""


@dataclass(slots=True, eq=False)
class Waiter:
    """A FETCH that found nothing so far."""

    client: Client
    queues: Sequence["Queue"]
    until: float
    is_open: bool = True


class Queue:
    """State: `head`, jobs in the order in which they go out; `loaded_to`, the key up to which
    every job has been in memory; `last_key`, the highest that is stored; `skipped`, keys above
    `loaded_to` that are in somebody's hands (only after a restart)."""

    def __init__(self, number: int, name: str, reader: Reader, *, last_key: int, rows: int) -> None:
        self.id = number
        self.name = name
        self.is_paused = False
        self.is_listed = False
        self.is_stored = False
        # Grows when the queue is cleared: jobs that were on their way then must not show up.
        self.generation = 0
        self.size = rows
        self.head: deque[StoredJob] = deque()
        self.waiters: dict[Waiter, None] = {}
        self.skipped: set[int] = set()
        self.last_key = last_key
        self._next_key = last_key
        self._loaded_to = last_key if rows == 0 else number << SEQUENCE_BITS
        self._head_bytes = 0
        self._page_jobs = 50
        self._reader = reader

    def new_key(self) -> int:
        self._next_key += 1
        return self._next_key

    def stored(self, jobs: list[StoredJob]) -> None:
        """Jobs of this queue are on disk now; keep them in memory too if there is room."""
        is_all_loaded = self._loaded_to == self.last_key
        self.size += len(jobs)
        self.last_key = jobs[-1].key
        if is_all_loaded and self._head_bytes < HEAD_BYTES:
            self.head.extend(jobs)
            self._loaded_to = self.last_key
            for job in jobs:
                self._head_bytes += len(job.payload)

    def put_first(self, job: StoredJob) -> None:
        """A job that came back: it was in front of all others."""
        self.head.appendleft(job)
        self._head_bytes += len(job.payload)
        self.size += 1

    def take(self) -> StoredJob | None:
        while True:
            if len(self.head) < LOW_JOBS and self._loaded_to < self.last_key:
                self.load()
            if not self.head:
                return None
            job = self.head.popleft()
            self._head_bytes -= len(job.payload)
            if not job.is_settled:
                self.size -= 1
                return job

    def oldest(self) -> StoredJob | None:
        while self.size:
            job = next((job for job in self.head if not job.is_settled), None)
            if job is not None or self._loaded_to >= self.last_key:
                return job
            self.load()
        return None

    def withdraw(self, job: StoredJob) -> None:
        """A job at the head was settled after all; it is passed over when its turn comes."""
        job.is_settled = True
        self.size -= 1

    def load(self) -> None:
        """Read the next page. Its length follows from the size of the jobs of the last one."""
        while self._loaded_to < self.last_key:
            page = self._reader.read_jobs(self._loaded_to, self.last_key, self._page_jobs)
            if not page:
                self._loaded_to = self.last_key
                return
            self._loaded_to = page[-1][0]
            page_bytes = sum(len(payload) for _, payload in page)
            self._page_jobs = max(1, min(PAGE_JOBS, HEAD_BYTES // (page_bytes // len(page) + 1)))
            jobs = [from_row(key, payload) for key, payload in page if key not in self.skipped]
            self.head.extend(jobs)
            self._head_bytes += sum(len(job.payload) for job in jobs)
            if jobs:
                return

    def load_all_that_fits(self) -> None:
        while self._loaded_to < self.last_key and self._head_bytes < HEAD_BYTES:
            self.load()

    def clear(self) -> None:
        self.generation += 1
        self.is_listed = self.is_paused = False
        self.head.clear()
        self._head_bytes = 0
        self.size = 0
        self._loaded_to = self.last_key = self._next_key
