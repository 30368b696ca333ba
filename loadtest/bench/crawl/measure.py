"""One measured run of `bench-crawl`: a web of its own, one crawler, one cell.

A run of ours counts only if the origin saw every page of a perfect crawl exactly once and nothing
else, counts no violation of politeness, and as many pages as the crawl itself. The others must have
fetched the same pages; how politely they did is shown.
"""

import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

from devservers.processes import StartError
from loadtest.bench.crawl.cells import NATIVE_PROFILE, PYTHON_PROFILE, RECORDING, CrawlCell
from loadtest.bench.crawl.figures import Visited, check_coverage, manners, steady_means
from loadtest.bench.crawl.peers import PeerCrawler, colly, scrapy
from loadtest.bench.crawl.profiles import Shares, native_profile, python_profile, python_settings
from loadtest.bench.crawl.recording import crawl_and_record
from loadtest.bench.crawl.run import Beside, Crawled, check_perfect, crawl_service
from loadtest.bench.crawl.states import State, state_of
from loadtest.lib.errors import RunError
from loadtest.lib.runs import SideRun
from loadtest.web.oracle import coverage
from loadtest.web.politeness import NS, judge
from loadtest.web.synthetic_web import SyntheticWeb
from manyhands.shared.settings import FetchSettings

PEERS: Mapping[str, Callable[[], PeerCrawler]] = {"scrapy": scrapy, "colly": colly}
Values = dict[str, float]


def measure_crawl(cell: CrawlCell, side: str, round_number: int) -> SideRun:
    """Do one run and return its numbers, or its error."""
    blank = SideRun(cell.key, side, round_number)
    try:
        return replace(blank, values=_values(cell, side))
    except (RunError, StartError, OSError, subprocess.TimeoutExpired) as error:
        return replace(blank, error=str(error) or type(error).__name__)


def _values(cell: CrawlCell, side: str) -> Values:
    with SyntheticWeb(cell.web) as web:
        if side in PEERS:
            return _peer_values(web, cell, PEERS[side]())
        if side in RECORDING:
            return crawl_and_record(web, cell, side)
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            if cell.kind == PYTHON_PROFILE.kind:
                shares: Shares = {}
                beside = partial(python_profile, directory=directory, found=shares)
                _crawled(web, cell, directory, beside, python_settings(directory))
                return shares
            if cell.kind == NATIVE_PROFILE.kind:
                shares = {}
                beside = partial(native_profile, directory=directory, found=shares)
                _crawled(web, cell, directory, beside, {})
                return shares
            with ExitStack() as opened:
                return _our_values(web, cell, directory, state_of(side, opened))


def _peer_values(web: SyntheticWeb, cell: CrawlCell, peer: PeerCrawler) -> Values:
    done = peer.crawl(web, concurrency=cell.slots, delay_s=0.0)
    visits = web.ledger()
    covered = coverage(web.perfect_crawl(), visits)
    check_coverage(covered)
    visited = Visited.of(visits)
    if done.failed or done.pages < covered.wanted:
        raise RunError(f"{done.pages} of {covered.wanted} pages, {done.failed} requests failed")
    return {
        **visited.values(),
        **manners(judge(visits, delay_s=0.0), covered),
        **_origin_values(web),
        "cpu_s": done.cpu_s,
        # Pages that it fetched twice are no gain.
        "pages_per_cpu_s": covered.wanted / done.cpu_s,
        "max_rss_bytes": done.max_rss_bytes,
    }


def _our_values(web: SyntheticWeb, cell: CrawlCell, directory: Path, state: State) -> Values:
    # The origin's clock and ours, read at the same moment.
    clocks_apart_s = time.monotonic() - web.counts().now_ns / NS
    server_s = state.server_cpu_s()
    crawled, visited = _crawled(
        web, cell, directory, lambda _roles: nullcontext(), {}, state=state.place
    )
    server_s = state.server_cpu_s() - server_s
    from_s, until_s, ended_s = (
        at_ns / NS + clocks_apart_s
        for at_ns in (visited.from_ns, visited.until_ns, visited.ended_ns)
    )
    busy, ready = steady_means(crawled.looks, from_s, until_s)
    counters = crawled.counters
    most_parsed = FetchSettings().truncate_bytes
    parsed_bytes = sum(min(size, most_parsed) for size in web.page_sizes())
    return {
        **visited.values(),
        **manners(judge(web.ledger(), delay_s=0.0), coverage(web.perfect_crawl(), web.ledger())),
        **_origin_values(web),
        **_role_values(crawled, visited.pages),
        "us_database": server_s / visited.pages * 1e6,
        "cpu_s": crawled.used.total_s,
        "pages_per_cpu_s": visited.pages / crawled.used.total_s,
        "parsed_bytes_per_cpu_s": parsed_bytes / crawled.used.total_s,
        "max_rss_bytes": crawled.peak_rss_bytes,
        "slots_busy": busy,
        "hosts_ready": ready,
        "end_s": crawled.ended_at_s - ended_s,
        "links_per_page": counters["links"] / visited.pages,
        "known_share": counters["duplicates"] / counters["links"],
    }


def _crawled(
    web: SyntheticWeb,
    cell: CrawlCell,
    directory: Path,
    beside: Beside,
    settings: Mapping[str, str],
    state: str | None = None,
) -> tuple[Crawled, Visited]:
    """Raises RunError unless all was as a perfect crawl has it."""
    with crawl_service(web, cell, directory, settings, state) as service:
        crawled = service.crawl(web, beside)
    return crawled, check_perfect(web, crawled.counters)


def _origin_values(web: SyntheticWeb) -> Values:
    counts = web.counts()
    return {
        "connections_per_request": counts.connections / counts.requests,
        "page_bytes": counts.bytes / counts.pages,
        "origin_cpu_s": counts.cpu_s,
    }


def _role_values(crawled: Crawled, pages: int) -> Values:
    """Processor time of each kind of process in µs per page, and of its other threads."""
    used = crawled.used
    return {f"us_{role}": used_s / pages * 1e6 for role, used_s in used.by_role.items()} | {
        f"us_{role}_threads": used_s / pages * 1e6 for role, used_s in used.of_threads.items()
    }
