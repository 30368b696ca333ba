"""What `bench-sinks` measures: batches for three sinks at once, and crawls with and without sinks.
Pure."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from loadtest.bench.crawl.cells import PLAIN, TLS, CrawlCell
from loadtest.lib.cell_keys import parse_known

# Of a batch: as many pages as a parse stage hands over in a few seconds.
RECORDS = 500
LINKS = 30
BATCHES = 20
# Connections are made, tables and indices are there, and servers have seen such a batch.
WARM_UP_BATCHES = 5
# Before each batch: servers finish what the one before it has left them to do.
REST_S = 0.1
PLAIN_PAGES = 5000
TLS_PAGES = 2000

PARALLEL = "parallel"
SEQUENTIAL = "sequential"
WITHOUT = "without"
WITH = "with"
# Of a run that has all sides of its cell, in turns.
ALL = "all"
# How the made-up sinks are named for the process that writes, in place of a URL.
SLEEPING = "sleep"


@dataclass(frozen=True, slots=True)
class BatchCell:
    """Three sinks, by how their sides are called and titled. Each also is written by itself."""

    key: str
    title: str
    sinks: tuple[tuple[str, str], ...]

    @property
    def sides(self) -> dict[str, str]:
        """By what they are called: each sink alone, then all of them."""
        return dict(self.sinks) | {PARALLEL: "all three at once", SEQUENTIAL: "one after the other"}

    @property
    def is_made_up(self) -> bool:
        """Its sinks are no servers."""
        return all(side.startswith(f"{SLEEPING}:") for side in self.alone)

    @property
    def alone(self) -> tuple[str, ...]:
        return tuple(side for side, _ in self.sinks)

    def sinks_of(self, side: str) -> tuple[str, ...]:
        return (side,) if side in self.alone else self.alone


@dataclass(frozen=True, slots=True)
class CostCell:
    """A crawl, with and without sinks."""

    key: str
    crawl: CrawlCell

    @property
    def title(self) -> str:
        return self.crawl.title

    @property
    def sides(self) -> dict[str, str]:
        return COST_SIDES


SinksCell = BatchCell | CostCell

MADE_UP_MS = (20, 50, 100)
MADE_UP = BatchCell(
    "batch/made-up",
    "three sinks that take 20, 50 and 100 ms",
    tuple((f"{SLEEPING}:{ms}", f"{ms} ms alone") for ms in MADE_UP_MS),
)
SERVERS = BatchCell(
    "batch/servers",
    "PostgreSQL, S3 and Elasticsearch",
    (
        ("postgres", "PostgreSQL alone"),
        ("s3", "S3 alone"),
        ("elasticsearch", "Elasticsearch alone"),
    ),
)
COST_SIDES = {
    WITHOUT: "no sink",
    WITH: "all three",
    "warc": "WARC alone",
    "parquet": "Parquet alone",
    "postgres": "PostgreSQL alone",
}
COST_ALONE = ("warc", "parquet", "postgres")
COST_PLAIN = CostCell(f"crawl/{PLAIN.key}", PLAIN.with_pages(PLAIN_PAGES))
COST_TLS = CostCell(f"crawl/{TLS.key}", TLS.with_pages(TLS_PAGES))
CELLS: tuple[SinksCell, ...] = (MADE_UP, SERVERS, COST_PLAIN, COST_TLS)


def sides_of_round(cell: SinksCell, round_number: int) -> list[str]:
    """The runs that a cell has in a round. What each sink costs alone is asked once."""
    if isinstance(cell, BatchCell):
        return [ALL]
    return [WITHOUT, WITH, *(COST_ALONE if round_number == 1 else ())]


def sinks_of_crawl(side: str) -> tuple[str, ...]:
    if side == WITHOUT:
        return ()
    return COST_ALONE if side == WITH else (side,)


@dataclass(frozen=True, slots=True)
class BatchOrder:
    """What the process that writes batches is told; as JSON on its command line. `places` are the
    URLs of the sinks of each side: no two sides have a place in common."""

    places: dict[str, list[str]]
    batches: int

    @property
    def records(self) -> int:
        """How many each place gets."""
        return (WARM_UP_BATCHES + self.batches) * RECORDS

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def record_id(number: int) -> str:
    return f"bench.1.{number:08x}.1"


def of_size(cells: Iterable[SinksCell], pages: int) -> tuple[SinksCell, ...]:
    """The same with that many pages in each crawl."""
    return tuple(
        replace(cell, crawl=cell.crawl.with_pages(pages)) if isinstance(cell, CostCell) else cell
        for cell in cells
    )


def parse_sinks_cells(text: str) -> tuple[SinksCell, ...]:
    """Read `batch/made-up,crawl`; raises ValueError with the wrong word."""
    return parse_known(text, CELLS)
