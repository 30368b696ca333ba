"""What `bench-ingest` measures: ways to hand jobs in, and with what each is compared. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from loadtest.lib.cell_keys import Readers, parse_keys, read_count

# Ours first; a ratio is ours to each of the others of a cell.
SIDES = {
    "api": "Manyhands API",
    "fastapi": "empty FastAPI",
    "asgi": "raw ASGI",
    "pushb": "raw PUSHB",
}
RUN_S = 4.0
# PUSHBs of the API, and so of the client that a stream is compared with.
STREAM_BATCH = 1000


@dataclass(frozen=True, slots=True)
class SingleCell:
    """One job per POST, as many connections as that at work all the time."""

    kind: ClassVar[str] = "single"
    sides: ClassVar[tuple[str, ...]] = ("api", "fastapi", "asgi")
    connections: int

    @property
    def key(self) -> str:
        return f"single/{self.connections}"

    @property
    def title(self) -> str:
        return f"single POSTs, {self.connections} connections"


@dataclass(frozen=True, slots=True)
class LoneCell:
    """One POST at a time on idle servers."""

    kind: ClassVar[str] = "lone"
    sides: ClassVar[tuple[str, ...]] = ("api", "fastapi", "asgi")
    requests: int

    @property
    def key(self) -> str:
        return f"lone/{self.requests}"

    @property
    def title(self) -> str:
        return "a lone POST"


@dataclass(frozen=True, slots=True)
class ListCell:
    """Many jobs per POST, as a JSON list."""

    kind: ClassVar[str] = "list"
    sides: ClassVar[tuple[str, ...]] = ("api", "pushb")
    jobs: int
    connections: int

    @property
    def key(self) -> str:
        return f"list/{self.jobs}/{self.connections}"

    @property
    def title(self) -> str:
        return f"lists of {self.jobs:,}, {_connections(self.connections)}"


@dataclass(frozen=True, slots=True)
class StreamCell:
    """NDJSON: one request with so many lines."""

    kind: ClassVar[str] = "stream"
    sides: ClassVar[tuple[str, ...]] = ("api", "pushb")
    lines: int

    @property
    def key(self) -> str:
        return f"stream/{self.lines}"

    @property
    def title(self) -> str:
        return f"NDJSON of {self.lines:,} lines, 1 connection"


IngestCell = SingleCell | LoneCell | ListCell | StreamCell

DEFAULT: tuple[IngestCell, ...] = (
    SingleCell(64),
    SingleCell(256),
    LoneCell(400),
    ListCell(100, 4),
    ListCell(1000, 4),
    StreamCell(200_000),
)


def _connections(count: int) -> str:
    return "1 connection" if count == 1 else f"{count} connections"


def parse_ingest_cells(text: str) -> tuple[IngestCell, ...]:
    """Read `single,list/100/4`: keys of cells, or kinds; raises ValueError with the wrong word."""
    return parse_keys(text, READERS, DEFAULT, FORMS)


def _reader(cell: Callable[..., IngestCell]) -> Callable[..., IngestCell]:
    return lambda *texts: cell(*map(read_count, texts))


FORMS = "single/CONNECTIONS, lone/REQUESTS, list/JOBS/CONNECTIONS, stream/LINES, or a kind alone"
READERS: Readers[IngestCell] = {
    "single": _reader(SingleCell),
    "lone": _reader(LoneCell),
    "list": _reader(ListCell),
    "stream": _reader(StreamCell),
}
