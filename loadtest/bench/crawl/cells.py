"""What `bench-crawl` crawls: which web, by whom, with how many slots. Pure."""

from dataclasses import dataclass, replace

from loadtest.lib.cell_keys import parse_known
from loadtest.web.synthetic_web import WebSpec

OURS = "ours"
# The same with its state elsewhere than in files.
POSTGRES, POSTGRES_AWAY = "postgres", "postgres_away"
AWAY_MS = 5.0
OUR_SIDES = {
    OURS: "Manyhands",
    POSTGRES: "Manyhands on PostgreSQL",
    POSTGRES_AWAY: f"Manyhands on PostgreSQL, {AWAY_MS:g} ms away",
}
# The same with records of its pages in a file, of these fields.
LINKS_ALONE = "links"
FIELDS = {
    LINKS_ALONE: ("links",),
    "default": ("default",),
    "markdown": ("default", "markdown"),
}
SCRAPY_TEXT = "scrapy_text"
RECORDING = {
    LINKS_ALONE: "Manyhands, links alone",
    "default": "Manyhands, the default record",
    "markdown": "Manyhands, the default record and Markdown",
    SCRAPY_TEXT: "Scrapy with trafilatura",
}
# Ours first; a ratio is ours to each of the others.
PEERS = {"scrapy": "Scrapy", "colly": "Colly"}
SIDES = OUR_SIDES | PEERS | RECORDING
PARSE_STAGE = "parse:1x40"
CONCURRENCY = 100
DUPLICATE_SHARE = 0.45
# The sizes of real pages: median 138 KB, mean 242 KB.
REAL_MEDIAN_BYTES = 138_000
REAL_SPREAD = 1.06
PROCESSES = (1, 2, 3)
# For each process, so that one of three has as much to choose from as one alone: of each four hosts
# three share a domain, which is asked one page at a time, and 100 such domains keep 50 slots busy
# to the end. At half a second a page this takes some 25 s.
SCALING_HOSTS = 400
SCALING_PAGES = 2500
SCALING_SLOTS = 50


@dataclass(frozen=True, slots=True)
class CrawlCell:
    # The name in front of the slash, or the whole key: which table it is shown in.
    kind: str
    key: str
    title: str
    web: WebSpec
    # Of each process that crawls.
    slots: int = CONCURRENCY
    processes: int = 1

    @property
    def stages(self) -> str:
        return f"crawl:{self.processes}x{self.slots} {PARSE_STAGE}"

    @property
    def children(self) -> int:
        """Processes of the worker service: those that crawl, and one that parses."""
        return self.processes + 1

    def with_pages(self, pages: int) -> "CrawlCell":
        """The same with a smaller or larger web; pages of a host stay as many."""
        hosts = max(1, round(self.web.hosts * pages / self.web.pages))
        return replace(self, web=replace(self.web, hosts=hosts, pages=max(hosts, pages)))


PLAIN = CrawlCell(
    "plain20",
    "plain20",
    "plain HTTP, pages of 20 KB",
    WebSpec(
        hosts=200,
        pages=10_000,
        size_bytes=20_000,
        latency_ms=10,
        duplicate_share=DUPLICATE_SHARE,
    ),
)
STORES = replace(
    PLAIN, kind="stores20", key="stores20", title="state in SQLite files and in PostgreSQL"
)
TLS = CrawlCell(
    "tls138",
    "tls138",
    "TLS, a new connection for every page, 138 KB in the median",
    WebSpec(
        hosts=200,
        pages=3000,
        size_bytes=REAL_MEDIAN_BYTES,
        size_spread=REAL_SPREAD,
        latency_ms=10,
        duplicate_share=DUPLICATE_SHARE,
        has_tls=True,
        closes=True,
    ),
)
# Scrapy needs some 30 ms for the text of one of 138 KB.
PLAIN_RECORDS = replace(PLAIN.with_pages(5000), kind="records", key="records/20")
TLS_RECORDS = replace(TLS.with_pages(1500), kind="records", key="records/138")


def scaling(processes: int) -> CrawlCell:
    return CrawlCell(
        "scaling",
        f"scaling/{processes}",
        f"{processes} × {SCALING_SLOTS} slots",
        WebSpec(
            hosts=SCALING_HOSTS * processes,
            pages=SCALING_PAGES * processes,
            size_bytes=20_000,
            latency_ms=500,
            duplicate_share=DUPLICATE_SHARE,
        ),
        SCALING_SLOTS,
        processes,
    )


SCALING = tuple(scaling(processes) for processes in PROCESSES)
RECORDS = (PLAIN_RECORDS, TLS_RECORDS)
CELLS = (PLAIN, STORES, TLS, *RECORDS, *SCALING)
# What two revisions are compared by.
AGAINST = (PLAIN, TLS)
# The crawl of `plain20` once more, slowed down by being looked at: only shares count.
PYTHON_PROFILE = replace(PLAIN, kind="profile", key="profile", title="by Python function")
NATIVE_PROFILE = replace(PLAIN, kind="perf", key="perf", title="by library and native function")


def sides_of(cell: CrawlCell, *, with_peers: bool) -> list[str]:
    """Who crawls a cell; `with_peers`: the others also where they are not needed for a target."""
    if cell.kind == STORES.kind:
        return list(OUR_SIDES)
    if cell.kind == RECORDS[0].kind:
        return list(RECORDING)
    has_peers = cell.kind == PLAIN.kind or (with_peers and cell.kind == TLS.kind)
    return [OURS, *PEERS] if has_peers else [OURS]


def parse_crawl_cells(text: str) -> tuple[CrawlCell, ...]:
    """Read `plain20,scaling/2` or `scaling`; raises ValueError with the wrong word."""
    return parse_known(text, CELLS)
