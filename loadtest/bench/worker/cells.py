"""What `bench-worker` measures: cells of five kinds, and on which servers each is run. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from loadtest.lab.cells import KINDS, TITLES
from loadtest.lib.cell_keys import Readers, parse_keys, read_count

SLOTS = (50, 500, 2000, 10_000, 20_000)
# How long a run should last at the least, in seconds, and how many waves of sleeping jobs it should
# have: the first and the last do not count.
RUN_S = 4.0
LEAST_WAVES = 5
# About what each server gives on two cores with our worker beside it; only sets a run's length.
SERVER_JOBS_PER_S = {"faktory": 4500, "broker": 25_000}
# So long that at least one of the service's own intervals of five seconds lies within a run.
SERVICE_RUN_S = 11.0
SERVICE_JOB_MS = 1000
# Jobs per second that are offered to every number of slots, so that each does the same work.
PACE_JOBS_PER_S = 2500
# Of the slots, so many are busy then: some must be free for a load that does not arrive evenly.
PACED_SHARE = 0.75
PACED_RUN_S = 5.0
# Of the jobs that compute: per process, enough that it never waits for the next.
BURN_SLOTS = 20
BURN_JOBS_PER_S = 400


@dataclass(frozen=True, slots=True)
class SlotsCell:
    """One process drains jobs that are all there when it starts."""

    kind: ClassVar[str] = "slots"
    # A key of cells.KINDS.
    work: str
    slots: int

    @property
    def key(self) -> str:
        return f"slots/{self.work}/{self.slots}"

    @property
    def title(self) -> str:
        return f"{TITLES[self.work]} jobs, {self.slots:,} slots"

    @property
    def sleep_ms(self) -> int:
        return KINDS[self.work]

    def jobs_for(self, server: str) -> int:
        return jobs_of_drain(self.slots, self.sleep_ms, server, RUN_S)


@dataclass(frozen=True, slots=True)
class ServiceCell:
    """So many processes drain jobs of one second: ten thousand at a time."""

    kind: ClassVar[str] = "ten_thousand"
    processes: int
    slots_each: int

    @property
    def key(self) -> str:
        return f"ten_thousand/{self.processes}x{self.slots_each}"

    @property
    def title(self) -> str:
        return f"1 s jobs, {self.processes} × {self.slots_each:,} slots"

    @property
    def slots(self) -> int:
        return self.processes * self.slots_each

    def jobs_for(self, server: str) -> int:
        return jobs_of_drain(self.slots, SERVICE_JOB_MS, server, SERVICE_RUN_S)


@dataclass(frozen=True, slots=True)
class PacedCell:
    """Jobs arrive at the same rate whatever the slots; they last so long that most are busy."""

    kind: ClassVar[str] = "paced"
    slots: int

    @property
    def key(self) -> str:
        return f"paced/{self.slots}"

    @property
    def title(self) -> str:
        return f"{self.slots:,} slots, {PACE_JOBS_PER_S:,} jobs/s of {self.sleep_ms:,} ms"

    @property
    def sleep_ms(self) -> int:
        return round(self.slots * PACED_SHARE / PACE_JOBS_PER_S * 1000)

    @property
    def push_s(self) -> float:
        """How long jobs arrive: until the first end, and then as long as is measured."""
        return self.sleep_ms / 1000 + PACED_RUN_S

    @property
    def jobs(self) -> int:
        return round(self.push_s * PACE_JOBS_PER_S)


@dataclass(frozen=True, slots=True)
class ProcessesCell:
    """Jobs that compute, and the same without a queue in as many processes."""

    kind: ClassVar[str] = "processes"
    processes: int

    @property
    def key(self) -> str:
        return f"processes/{self.processes}"

    @property
    def title(self) -> str:
        return "1 process" if self.processes == 1 else f"{self.processes} processes"

    @property
    def slots(self) -> int:
        return self.processes * BURN_SLOTS

    @property
    def jobs(self) -> int:
        # Half as much again: the ends of a run do not count.
        return round(BURN_JOBS_PER_S * self.processes * RUN_S * 1.5)


@dataclass(frozen=True, slots=True)
class ProfileCell:
    """One process drains no-op jobs under a profiler."""

    kind: ClassVar[str] = "profile"
    slots: int

    @property
    def key(self) -> str:
        return f"profile/{self.slots}"

    @property
    def title(self) -> str:
        return f"profile of a no-op drain, {self.slots:,} slots"

    @property
    def jobs(self) -> int:
        return round(SERVER_JOBS_PER_S["broker"] * RUN_S)


WorkerCell = SlotsCell | ServiceCell | PacedCell | ProcessesCell | ProfileCell
# The servers that each cell is run on.
Matrix = Mapping[WorkerCell, tuple[str, ...]]

BOTH, BROKER = ("faktory", "broker"), ("broker",)
ONE_SERVICE = ServiceCell(1, 10_000)
TWO_PROCESSES = ServiceCell(2, 5000)
PROFILE = ProfileCell(500)
PACED = tuple(PacedCell(slots) for slots in SLOTS)
# A real Faktory is the limit itself, whatever the slots: there a few cells say all.
CORE: Matrix = {
    SlotsCell("noop", 50): BROKER,
    SlotsCell("noop", 500): BOTH,
    SlotsCell("noop", 20_000): BROKER,
    SlotsCell("100ms", 500): BROKER,
    SlotsCell("1s", 20_000): BROKER,
    ONE_SERVICE: BOTH,
    TWO_PROCESSES: BROKER,
    **dict.fromkeys(PACED, BROKER),
    ProcessesCell(1): BROKER,
    ProcessesCell(2): BROKER,
    PROFILE: BROKER,
}
FULL: Matrix = {
    **{
        SlotsCell(work, slots): BOTH if slots in (500, 10_000) else BROKER
        for work, slots in product(KINDS, SLOTS)
    },
    ONE_SERVICE: BOTH,
    TWO_PROCESSES: BOTH,
    **dict.fromkeys(PACED, BOTH),
    **dict.fromkeys((ProcessesCell(1), ProcessesCell(2), ProcessesCell(4)), BOTH),
    PROFILE: BROKER,
}
FORMS = (
    f"slots/KIND/SLOTS with a kind of {', '.join(KINDS)}, ten_thousand/PROCESSESxSLOTS, "
    "paced/SLOTS, processes/PROCESSES, profile/SLOTS, or the beginning of one, such as `paced`"
)


def jobs_of_drain(slots: int, sleep_ms: int, server: str, run_s: float) -> int:
    """Choose so many jobs that a run lasts as long as it should: whole waves of sleeping jobs."""
    most = SERVER_JOBS_PER_S[server]
    if not sleep_ms:
        # Half as much again: the ends of a run do not count.
        return round(most * run_s * 1.5)
    jobs = min(most, slots * 1000 / sleep_ms) * run_s
    return max(round(jobs / slots), LEAST_WAVES) * slots


def is_planned(cell: WorkerCell, server: str, round_number: int) -> bool:
    """Return whether a cell is run: a profile says the same in every round, and of every server."""
    return not isinstance(cell, ProfileCell) or (server == "broker" and round_number == 1)


def parse_worker_cells(text: str) -> Matrix:
    """Read `paced,slots/1s/500`, each on both servers; raises ValueError with the wrong word."""
    return dict.fromkeys(parse_keys(text, READERS, tuple(FULL), FORMS), BOTH)


def _slots(work: str, slots: str) -> SlotsCell:
    if work not in KINDS:
        raise ValueError(work)
    return SlotsCell(work, read_count(slots))


def _service(text: str) -> ServiceCell:
    processes, _, slots = text.partition("x")
    return ServiceCell(read_count(processes), read_count(slots))


READERS: Readers[WorkerCell] = {
    "slots": _slots,
    "ten_thousand": _service,
    "paced": lambda slots: PacedCell(read_count(slots)),
    "processes": lambda processes: ProcessesCell(read_count(processes)),
    "profile": lambda slots: ProfileCell(read_count(slots)),
}
