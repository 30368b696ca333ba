"""What `bench-broker` measures: cells of five kinds, and how many jobs a run of each gets. Pure."""

from dataclasses import dataclass
from typing import ClassVar

from loadtest.lib.cell_keys import Readers, parse_keys, read_count

CONSUMERS = {"ours": "Manyhands", "rust": "faktory (Rust)", "go": "faktory_worker_go"}

RUN_S = 4.0
# About what each gives on two cores; these only set the length of a run, in jobs/s.
DRAIN_JOBS_PER_S = {"faktory": 6000, "broker": 40_000}
# Consumers that do FETCH and ACK in turn cost any server more.
ONE_SOCKET_PER_SLOT_JOBS_PER_S = {"faktory": 6000, "broker": 15_000}
SUSTAINED_JOBS_PER_S = {"faktory": 4500, "broker": 30_000}
# More than any server takes: so many jobs are made before a push is measured, in jobs/s.
MOST_PUSHED_PER_S = 200_000
MOST_COMMANDS_PER_S = 30_000
LARGE_BACKLOG = 10_000_000


@dataclass(frozen=True, slots=True)
class PushCell:
    """So many clients push as fast as they are answered; nobody consumes."""

    kind: ClassVar[str] = "push"
    batch: int
    clients: int

    @property
    def key(self) -> str:
        return f"push/{self.batch}/{self.clients}"

    @property
    def title(self) -> str:
        clients = "1 client" if self.clients == 1 else f"{self.clients} clients"
        return f"push, PUSHB of {self.batch:,}, {clients}"

    def jobs_for(self, server: str) -> int:
        """Return the most that a run can push; it ends after RUN_S, whatever the server."""
        del server
        return round(min(MOST_COMMANDS_PER_S * self.batch, MOST_PUSHED_PER_S) * RUN_S)


@dataclass(frozen=True, slots=True)
class DrainCell:
    """A consumer drains no-op jobs that are all there when it starts."""

    kind: ClassVar[str] = "drain"
    consumer: str
    # Milliseconds through the relay; None without a relay.
    rtt_ms: int | None
    slots: int

    @property
    def key(self) -> str:
        path = "direct" if self.rtt_ms is None else str(self.rtt_ms)
        return f"drain/{self.consumer}/{path}/{self.slots}"

    @property
    def title(self) -> str:
        path = "direct" if self.rtt_ms is None else f"relay of {self.rtt_ms} ms"
        return f"drain, {CONSUMERS[self.consumer]}, {path}, {self.slots:,} slots"

    def jobs_for(self, server: str) -> int:
        is_ours = self.consumer == "ours"
        rate = (DRAIN_JOBS_PER_S if is_ours else ONE_SOCKET_PER_SLOT_JOBS_PER_S)[server]
        # Half as much again: the first part of a run does not count.
        return round(rate * RUN_S * 1.5)


@dataclass(frozen=True, slots=True)
class SustainedCell:
    """Pushing and draining at the same time, with a queue that stays short."""

    kind: ClassVar[str] = "sustained"
    slots: int

    @property
    def key(self) -> str:
        return f"sustained/{self.slots}"

    @property
    def title(self) -> str:
        return f"push and drain together, {self.slots:,} slots"

    def jobs_for(self, server: str) -> int:
        return round(SUSTAINED_JOBS_PER_S[server] * RUN_S * 1.25)


@dataclass(frozen=True, slots=True)
class LatencyCell:
    """One job at a time on an idle server: from its PUSH to its handler."""

    kind: ClassVar[str] = "latency"
    jobs: int

    @property
    def key(self) -> str:
        return f"latency/{self.jobs}"

    @property
    def title(self) -> str:
        return "from push to handler, idle server"

    def jobs_for(self, server: str) -> int:
        del server
        return self.jobs


@dataclass(frozen=True, slots=True)
class BacklogCell:
    """A queue that is already long: memory, start, push and drain with it."""

    kind: ClassVar[str] = "backlog"
    backlog: int

    @property
    def key(self) -> str:
        return f"backlog/{self.backlog}"

    @property
    def title(self) -> str:
        return f"backlog of {self.backlog:,} jobs"

    def jobs_for(self, server: str) -> int:
        """Return how many of them are drained."""
        return min(round(DRAIN_JOBS_PER_S[server] * RUN_S * 1.25), self.backlog)


BrokerCell = PushCell | DrainCell | SustainedCell | LatencyCell | BacklogCell

DEFAULT: tuple[BrokerCell, ...] = (
    *(PushCell(batch, clients) for batch in (1, 100, 1000) for clients in (1, 16)),
    *(DrainCell(consumer, None, 500) for consumer in CONSUMERS),
    DrainCell("ours", 0, 8000),
    DrainCell("ours", 50, 8000),
    SustainedCell(500),
    LatencyCell(500),
    BacklogCell(100_000),
    BacklogCell(1_000_000),
)
# What two revisions are compared by: some minutes of it.
AGAINST: tuple[BrokerCell, ...] = (
    PushCell(1, 16),
    PushCell(100, 16),
    DrainCell("ours", None, 500),
    SustainedCell(500),
    LatencyCell(500),
)
FULL: tuple[BrokerCell, ...] = (*DEFAULT, BacklogCell(LARGE_BACKLOG))
FORMS = (
    "push/BATCH/CLIENTS, drain/CONSUMER/RTT_MS/SLOTS (`direct` for no relay), sustained/SLOTS, "
    "latency/JOBS, backlog/JOBS, or the beginning of one, such as `push` or `drain/ours`"
)


def is_planned(cell: BrokerCell, server: str, round_number: int) -> bool:
    """Return whether a cell is run: a large backlog takes minutes, so once and by the broker."""
    if isinstance(cell, BacklogCell) and cell.backlog >= LARGE_BACKLOG:
        return server == "broker" and round_number == 1
    return True


def parse_broker_cells(text: str) -> tuple[BrokerCell, ...]:
    """Read `push,drain/ours/50/8000`; raises ValueError with the wrong word in it."""
    return parse_keys(text, READERS, FULL, FORMS)


def _drain(consumer: str, path: str, slots: str) -> DrainCell:
    if consumer not in CONSUMERS or not (path == "direct" or path.isdecimal()):
        raise ValueError(f"{consumer}/{path}")
    return DrainCell(consumer, None if path == "direct" else int(path), read_count(slots))


READERS: Readers[BrokerCell] = {
    "push": lambda batch, clients: PushCell(read_count(batch), read_count(clients)),
    "drain": _drain,
    "sustained": lambda slots: SustainedCell(read_count(slots)),
    "latency": lambda jobs: LatencyCell(read_count(jobs)),
    "backlog": lambda backlog: BacklogCell(read_count(backlog)),
}
