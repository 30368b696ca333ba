"""What a consumer drains: a kind of job, over a round trip, with so many slots; and how many jobs a
run gets. Pure."""

from dataclasses import dataclass

KINDS = {"noop": 0, "100ms": 100, "1s": 1000}
TITLES = {"noop": "no-op", "100ms": "100 ms", "1s": "1 s"}

# The server answers 2,000 connections; a consumer with one socket per slot needs a few for itself.
ONE_SOCKET_PER_SLOT_CAP = 1900

RUN_S = 4.5
# About what each server gives on two cores with a consumer beside it; only sets a run's length.
SERVER_JOBS_PER_S = {"faktory": 8000, "broker": 20_000}
MIN_JOBS = 2000
# A steady window needs a few waves between the first one and an empty queue.
MIN_WAVES = 5


@dataclass(frozen=True, slots=True)
class Cell:
    """One column of the comparison: every consumer drains the same kind of job here."""

    kind: str
    rtt_ms: int
    slots: int
    # About how long a run lasts at best.
    run_s: float = RUN_S

    @property
    def key(self) -> str:
        return f"{self.kind}/{self.rtt_ms}/{self.slots}"

    @property
    def title(self) -> str:
        return f"{TITLES[self.kind]}, {self.rtt_ms} ms round trip, {self.slots:,} slots"

    @property
    def sleep_ms(self) -> int:
        return KINDS[self.kind]


def jobs_for(cell: Cell, slots: int, server: str) -> int:
    """Choose so many jobs that a run lasts as long as it should: whole waves of sleeping jobs."""
    job_s = (cell.sleep_ms + 2 * cell.rtt_ms) / 1000
    most = SERVER_JOBS_PER_S[server]
    rate = min(most, slots / job_s) if job_s else most
    jobs = max(rate * cell.run_s, MIN_JOBS)
    if not cell.sleep_ms:
        return round(jobs / 1000) * 1000
    return max(round(jobs / slots), MIN_WAVES) * slots


def jobs_for_one_socket(cell: Cell, slots: int) -> int:
    """As `jobs_for`, for a consumer that does FETCH and ACK in turn on a single socket."""
    job_s = max(2 * cell.rtt_ms, 1, cell.sleep_ms / slots) / 1000
    return max(round(cell.run_s / job_s), 10)
