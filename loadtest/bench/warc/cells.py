"""What `bench-warc` measures: decoding a WARC file and exporting one, by us and by others, and how
much memory that takes. Pure."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from loadtest.lib.runs import rotated

DECODE, EXPORT = "decode", "export"
BARE, OURS, CHECKED, PLAIN = "bare", "ours", "checked", "plain"
TITLES = {
    DECODE: "Decoding: every response of a file",
    EXPORT: "Export: a file to Parquet",
}
SIDES = {
    DECODE: {
        BARE: "bare FastWARC loop",
        OURS: "ours",
        CHECKED: "ours, digests checked",
    },
    EXPORT: {
        PLAIN: "warcio + pyarrow, the plain way",
        OURS: "ours",
    },
}
# What is compared with ours, and how many times its rate ours must have.
PEERS = {DECODE: BARE, EXPORT: PLAIN}
TARGETS = {DECODE: 0.7, EXPORT: 5.0}
# As long as those of Common Crawl. The plain way holds all of it: some 14 GB of memory.
SIZE_MB = 1024
# How peak memory is looked at: shares of the largest file.
MEMORY_SHARES = (0.25, 0.5, 1.0)


@dataclass(frozen=True, slots=True)
class WarcStep:
    """One run to be done. `size_mb` is of the file; a run of the memory's has no peer."""

    work: str
    side: str
    round: int
    size_mb: int
    is_for_memory: bool = False

    @property
    def label(self) -> str:
        return f"{self.work} {self.size_mb} MB  round {self.round}  {SIDES[self.work][self.side]}"


@dataclass(frozen=True, slots=True)
class WarcOrder:
    """What the process that does it is told; as JSON on its command line."""

    work: str
    side: str
    path: str
    directory: str
    pages: int
    payload_bytes: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def plan_warc(size_mb: int, rounds: int, memory_mb: int) -> Iterator[WarcStep]:
    """In each round all sides of a work once, in rotated order; then the memory by size."""
    for round_number in range(1, rounds + 1):
        for work, sides in SIDES.items():
            for side in rotated(list(sides), round_number):
                yield WarcStep(work, side, round_number, size_mb)
    for share in MEMORY_SHARES if memory_mb else ():
        for work in SIDES:
            yield WarcStep(work, OURS, 1, max(1, round(memory_mb * share)), is_for_memory=True)
