"""`bench-crawl`: the synthetic web crawled by us, Scrapy and Colly."""

from collections.abc import Iterator, Sequence

from rich.console import Console

from loadtest.bench.crawl.cells import (
    AGAINST,
    CELLS,
    NATIVE_PROFILE,
    OURS,
    PYTHON_PROFILE,
    SIDES,
    CrawlCell,
    parse_crawl_cells,
    sides_of,
)
from loadtest.bench.crawl.measure import measure_crawl
from loadtest.bench.crawl.profiles import has_perf
from loadtest.bench.crawl.report import (
    CrawlReport,
    crawl_outcome,
    print_crawl_report,
    write_crawl_report,
)
from loadtest.lib.benchmark import Against, Benchmark, Cells, Wanted
from loadtest.lib.figures import MIB, Figure
from loadtest.lib.machine import basic_facts, package_versions, pinned, postgres_facts
from loadtest.lib.options import Option, count
from loadtest.lib.programs import PEERS
from loadtest.lib.progress import run_steps
from loadtest.lib.runs import SideRun, Step, in_turns
from loadtest.web.synthetic_web import build_web

PACKAGES = {
    "Scrapy": "scrapy",
    "trafilatura": "trafilatura",
    "Twisted": "twisted",
    "uvloop": "uvloop",
}


def plan_crawl(
    cells: Sequence[CrawlCell], rounds: int, *, with_peers: bool
) -> Iterator[Step[CrawlCell, str]]:
    return in_turns(cells, rounds, lambda cell, _round: sides_of(cell, with_peers=with_peers))


def profile_cells(console: Console) -> tuple[CrawlCell, ...]:
    """What `--profile` adds; by perf only where it is installed."""
    if has_perf():
        return PYTHON_PROFILE, NATIVE_PROFILE
    console.print("left out: the profile by library: perf is not installed")
    return (PYTHON_PROFILE,)


def run(console: Console, wanted: Wanted[tuple[CrawlCell, ...]]) -> CrawlReport:
    """The profiles last and once."""
    options, rounds = wanted.options, wanted.rounds
    profiles = profile_cells(console) if options.profile else ()
    cells, profiles = (_of_size(some, options.pages) for some in (wanted.cells, profiles))
    build_web()
    steps = [
        *plan_crawl(cells, rounds, with_peers=options.peers),
        *plan_crawl(profiles, 1, with_peers=False),
    ]
    done = run_steps(
        *(console, steps, rounds),
        who=lambda side: SIDES[side],
        run=lambda step: measure_crawl(step.cell, step.side, step.round),
        result=crawl_outcome,
    )
    return CrawlReport.of(wanted.machine, (*cells, *profiles), done)


def measure_one(key: str, pages: float | None) -> SideRun:
    (cell,) = _of_size(parse_crawl_cells(key), round(pages) if pages else None)
    return measure_crawl(cell, OURS, 1)


def _of_size(cells: tuple[CrawlCell, ...], pages: int | None) -> tuple[CrawlCell, ...]:
    return tuple(cell.with_pages(pages) for cell in cells) if pages else cells


def crawl_facts() -> dict[str, str]:
    versions = package_versions(*PACKAGES.values())
    return (
        basic_facts("go")
        | {title: versions[name] for title, name in PACKAGES.items()}
        | postgres_facts()
        | {"Colly": pinned(PEERS / "go_colly" / "go.mod", "gocolly/colly/v2 ")}
    )


BENCHMARK = Benchmark(
    name="crawl",
    help="crawl the synthetic web by us, Scrapy and Colly, and by one to three processes",
    rounds=3,
    facts=crawl_facts,
    cells=Cells(
        default=CELLS,
        read=parse_crawl_cells,
        help="some of plain20,stores20,tls138,records/20,records/138,scaling/1,scaling/2,scaling/3 "
        "(records, scaling: all of them)",
    ),
    options=(
        Option("--peers", "Scrapy and Colly with TLS, too"),
        Option("--profile", "also where the CPU goes, with a crawl of its own"),
        Option("--pages", "of each web, instead of the cell's own number", count),
    ),
    run=run,
    show=print_crawl_report,
    write=write_crawl_report,
    against=Against(
        cells=AGAINST,
        figures=(
            Figure("pages_per_s", "pages/s"),
            Figure("pages_per_cpu_s", "pages per CPU-second", 1),
            Figure("parsed_bytes_per_cpu_s", "MiB parsed per CPU-second", 2, per_unit=MIB),
            Figure("us_crawl", "crawl CPU µs/page", is_less_better=True),
            Figure("us_parse", "parse CPU µs/page", is_less_better=True),
            Figure("us_broker", "broker CPU µs/page", is_less_better=True),
        ),
        size="pages",
        measure=measure_one,
    ),
)
