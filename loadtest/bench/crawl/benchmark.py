"""The plan of `bench-crawl`: who crawls which cell in which round, and in which order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from rich.console import Console

from loadtest.bench.crawl.cells import NATIVE_PROFILE, PYTHON_PROFILE, SIDES, CrawlCell, sides_of
from loadtest.bench.crawl.measure import CrawlRun, measure_crawl
from loadtest.bench.crawl.profiles import has_perf
from loadtest.bench.crawl.report import crawl_outcome
from loadtest.lab.consumers import PEERS
from loadtest.lib.machine import facts, pinned
from loadtest.lib.progress import do_all
from loadtest.web.synthetic_web import build_web

# Of the facts about the machine, those that matter here.
MACHINE = ("cores", "cpu", "memory", "system", "python", "go")
PACKAGES = {"Scrapy": "scrapy", "Twisted": "twisted", "uvloop": "uvloop"}


@dataclass(frozen=True, slots=True)
class CrawlStep:
    """One run to be done."""

    cell: CrawlCell
    round: int
    side: str


def plan_crawl(cells: Sequence[CrawlCell], rounds: int, *, with_peers: bool) -> Iterator[CrawlStep]:
    """Yield every run; in each round all crawlers of a cell run it once, in rotated order."""
    for round_number in range(1, rounds + 1):
        for index, cell in enumerate(cells):
            sides = sides_of(cell, with_peers=with_peers)
            turn = (round_number + index) % len(sides)
            for side in (*sides[turn:], *sides[:turn]):
                yield CrawlStep(cell, round_number, side)


def profile_cells(console: Console) -> tuple[CrawlCell, ...]:
    """What `--profile` adds; by perf only where it is installed."""
    if has_perf():
        return PYTHON_PROFILE, NATIVE_PROFILE
    console.print("left out: the profile by library: perf is not installed")
    return (PYTHON_PROFILE,)


def run_crawl(
    console: Console,
    cells: Sequence[CrawlCell],
    profiles: Sequence[CrawlCell],
    rounds: int,
    *,
    with_peers: bool,
) -> tuple[list[CrawlRun], bool]:
    """Do every run with a progress bar, the profiles last and once; return them and whether all
    were done."""
    build_web()
    steps = list(plan_crawl(cells, rounds, with_peers=with_peers))
    steps += plan_crawl(profiles, 1, with_peers=False)
    return do_all(
        console,
        steps,
        label=lambda step: f"{step.cell.key}  round {step.round}/{rounds}  {SIDES[step.side]}",
        run=lambda step: measure_crawl(step.cell, step.side, step.round),
        error=lambda run: run.error,
        result=crawl_outcome,
    )


def crawl_facts() -> dict[str, str]:
    found = facts()
    return (
        {name: found[name] for name in MACHINE}
        | {title: version(name) for title, name in PACKAGES.items()}
        | {"Colly": pinned(PEERS / "go_colly" / "go.mod", "gocolly/colly/v2 ")}
    )
