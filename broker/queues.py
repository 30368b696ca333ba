"""One queue: its head in memory, the rest on disk, and who waits for a job of it."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from manyhands.broker.jobs import StoredJob, from_row
from manyhands.broker.memory import JOB_BYTES, Memory
from manyhands.broker.reading import Reader
from manyhands.broker.schema import SEQUENCE_BITS

# Per queue; less when many queues have some (memory.py).
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

    __slots__ = (
        *("_head", "_head_bytes", "_job_bytes", "_loaded_to", "_memory", "_next_key"),
        *("_page_jobs", "_reader", "_skipped", "generation", "id", "is_forgotten", "is_listed"),
        *("is_paused", "is_stored", "last_key", "name", "size", "waiters"),
    )

    def __init__(
        self, number: int, name: str, reader: Reader, memory: Memory, *, last_key: int, rows: int
    ) -> None:
        self.id = number
        self.name = name
        self.is_paused = False
        self.is_listed = False
        self.is_stored = False
        self.is_forgotten = False
        # Grows when the queue is cleared: jobs that were on their way then must not show up.
        self.generation = 0
        self.size = rows
        self.waiters: dict[Waiter, None] = {}
        self.last_key = last_key
        # There may be very many queues: what most of them do not need is made when it is.
        self._head: deque[StoredJob] | None = None
        self._skipped: set[int] | None = None
        self._next_key = last_key
        self._loaded_to = last_key if rows == 0 else number << SEQUENCE_BITS
        self._head_bytes = 0
        self._page_jobs = 50
        self._job_bytes = 0
        self._reader = reader
        self._memory = memory

    @property
    def head(self) -> deque[StoredJob]:
        if self._head is None:
            self._head = deque()
        return self._head

    @property
    def skipped(self) -> set[int]:
        if self._skipped is None:
            self._skipped = set()
        return self._skipped

    def new_key(self) -> int:
        self._next_key += 1
        return self._next_key

    def stored(self, jobs: list[StoredJob]) -> None:
        """Jobs of this queue are on disk now; keep them in memory too if there is room."""
        is_all_loaded = self._loaded_to == self.last_key
        self.size += len(jobs)
        self.last_key = jobs[-1].key
        if is_all_loaded and self._head_bytes < self._head_limit():
            size = sum([len(job.payload) for job in jobs])
            if size > HEAD_BYTES and size > self._memory.head_room:
                return
            self.head.extend(jobs)
            self._loaded_to = self.last_key
            self._hold(len(jobs), size)

    def put_first(self, job: StoredJob) -> None:
        """A job that came back: it was in front of all others."""
        self.head.appendleft(job)
        self._hold(1, len(job.payload))
        self.size += 1

    def take(self) -> StoredJob | None:
        head = self.head
        while True:
            if len(head) < LOW_JOBS and self._loaded_to < self.last_key:
                self.load()
            if not head:
                return None
            job = head.popleft()
            # As `_hold`, which would be one more call for each job.
            size = len(job.payload)
            self._head_bytes -= size
            self._memory.heads -= JOB_BYTES + size
            if not job.is_settled:
                self.size -= 1
                if not size:
                    job.payload = self._reader.payload(job.key) or b""
                if job.payload:
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
            room = self._head_limit()
            limit = max(1, min(self._page_jobs, room // (self._job_bytes + 1)))
            page = self._reader.read_jobs(self._loaded_to, self.last_key, limit, room)
            if not page:
                self._loaded_to = self.last_key
                self._miss_what_did_not_come()
                return
            self._loaded_to = page[-1][0]
            self._job_bytes = sum([len(payload) for _, payload in page]) // len(page)
            self._page_jobs = PAGE_JOBS
            skipped = self._skipped or ()
            jobs = [from_row(key, payload) for key, payload in page if key not in skipped]
            self.head.extend(jobs)
            self._hold(len(jobs), sum([len(job.payload) for job in jobs]))
            if self._loaded_to == self.last_key:
                self._miss_what_did_not_come()
            if jobs:
                return

    def _miss_what_did_not_come(self) -> None:
        """All that can be read has been: what is still counted is in damaged pages."""
        missing = self.size - sum(not job.is_settled for job in self.head)
        if missing > 0:
            self.size -= missing
            self._reader.damage.found_missing(self.id, self.name, missing)

    def load_all_that_fits(self) -> None:
        while self._loaded_to < self.last_key and self._head_bytes < self._head_limit():
            self.load()

    def clear(self) -> None:
        self.generation += 1
        self.is_listed = self.is_paused = False
        self._hold(-len(self.head), -self._head_bytes)
        self._head = None
        self.size = 0
        self._loaded_to = self.last_key = self._next_key

    def shed(self) -> None:
        """An empty head takes room, too."""
        if not self._head:
            self._head = None

    def _head_limit(self) -> int:
        return min(HEAD_BYTES, self._memory.head_room)

    def _hold(self, jobs: int, size: int) -> None:
        self._head_bytes += size
        self._memory.heads += jobs * JOB_BYTES + size
