"""What `bench-hosts` measures: a crawl and fetch jobs on so many hosts, and fetch jobs with and
without politeness. Pure."""

from dataclasses import dataclass, replace

from loadtest.bench.crawl.cells import DUPLICATE_SHARE, OURS
from loadtest.lib.cell_keys import parse_known
from loadtest.web.synthetic_web import WebSpec

CRAWL, JOBS, MANNERS = "crawl", "jobs", "manners"
POLITE, IMPOLITE = "polite", "impolite"
SIDES = {OURS: "Manyhands", POLITE: "polite", IMPOLITE: "FETCH_POLITE=false"}
WORKERS = ("worker1", "worker2", "worker3")
# From each of them to broker and database, there and back.
DISTANCE_MS = 5.0
# With so slow an origin the slots are the limit: 100 pages/s for each host, and 300 in all, which
# two cores carry with database, broker, relays and origin.
SLOTS = 50
ANSWER_MS = 500.0
# For each host, so that three have as much to choose from as one alone. Of each four sites three
# share a domain, which is asked one page at a time.
SITES = 400
PAGES = 1500
PAGE_BYTES = 20_000
MANNERS_SITES = 1000
MANNERS_PAGES = 100_000
MANNERS_SLOTS = 100
MANNERS_ANSWER_MS = 10.0
PARSE_STAGE = "parse:1x40"


@dataclass(frozen=True, slots=True)
class HostsCell:
    # The name in front of the slash, or the whole key: which table it is shown in.
    kind: str
    key: str
    title: str
    web: WebSpec
    slots: int = SLOTS
    hosts: int = 1

    @property
    def handlers(self) -> str:
        return f"manyhands.worker.handlers.{self._stage},manyhands.worker.handlers.parse"

    @property
    def stages(self) -> str:
        """Of each worker service."""
        return f"{self._stage}:1x{self.slots} {PARSE_STAGE}"

    @property
    def _stage(self) -> str:
        return "crawl" if self.kind == CRAWL else "fetch"

    @property
    def sides(self) -> tuple[str, ...]:
        return (POLITE, IMPOLITE) if self.kind == MANNERS else (OURS,)

    def with_pages(self, pages: int) -> "HostsCell":
        """The same with so many pages for each host; those of a site stay as many."""
        sites = max(1, round(self.web.hosts * pages / self.web.pages))
        web = replace(self.web, hosts=sites * self.hosts, pages=max(sites, pages) * self.hosts)
        return replace(self, web=web)


def on_hosts(kind: str, hosts: int) -> HostsCell:
    return HostsCell(
        kind,
        f"{kind}/{hosts}",
        f"{hosts} host{'s' if hosts > 1 else ''} × {SLOTS} slots",
        WebSpec(
            hosts=SITES * hosts,
            pages=PAGES * hosts,
            size_bytes=PAGE_BYTES,
            latency_ms=ANSWER_MS,
            duplicate_share=DUPLICATE_SHARE,
            is_on_network=True,
        ),
        hosts=hosts,
    )


SCALING = {
    kind: tuple(on_hosts(kind, number) for number in range(1, len(WORKERS) + 1))
    for kind in (CRAWL, JOBS)
}
BESIDE_NONE = HostsCell(
    MANNERS,
    MANNERS,
    "100,000 fetch jobs",
    WebSpec(
        hosts=MANNERS_SITES,
        pages=MANNERS_PAGES,
        size_bytes=PAGE_BYTES,
        latency_ms=MANNERS_ANSWER_MS,
        duplicate_share=DUPLICATE_SHARE,
    ),
    MANNERS_SLOTS,
)
CELLS = (*SCALING[CRAWL], *SCALING[JOBS], BESIDE_NONE)


def parse_hosts_cells(text: str) -> tuple[HostsCell, ...]:
    """Read `crawl,jobs/2`; raises ValueError with the wrong word."""
    return parse_known(text, CELLS)
