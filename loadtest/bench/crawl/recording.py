"""One crawl of the synthetic web with records of its pages in a file of JSON lines, and what a page
costs: also the orderly end of the service, which is when the sink finishes its file. It counts only
if the crawl was perfect and the file has each page once."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

from loadtest.bench.crawl.cells import FIELDS, CrawlCell
from loadtest.bench.crawl.peers import scrapy_with_text
from loadtest.bench.crawl.run import check_perfect, crawl_service
from loadtest.lib.errors import RunError
from loadtest.web.oracle import coverage, wanted_urls
from loadtest.web.synthetic_web import SyntheticWeb
from manyhands.shared.crawl.spec import RecordSpec

Values = dict[str, float]


def crawl_and_record(web: SyntheticWeb, cell: CrawlCell, side: str) -> Values:
    """Raises RunError when the crawl or its records are not as they should be."""
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "pages.jsonl"
        values = _ours(web, cell, side, file) if side in FIELDS else _scrapy(web, cell, file)
        urls = list(_urls(file))
        wanted = wanted_urls(web.perfect_crawl())
        if sorted(urls) != sorted(wanted):
            raise RunError(f"records of {len(set(urls))} pages in {len(urls)}, not {len(wanted)}")
        return values | {"record_bytes": file.stat().st_size / len(urls)}


def _ours(web: SyntheticWeb, cell: CrawlCell, side: str, file: Path) -> Values:
    with crawl_service(web, cell, file.parent, {"SINKS": f"jsonl:{file}"}) as service:
        crawled = service.crawl(web, lambda _roles: nullcontext(), RecordSpec(fields=FIELDS[side]))
        end_s = service.end()
    visited = check_perfect(web, crawled.counters)
    per_page = 1e6 / visited.pages
    return {
        **visited.values(),
        **{f"us_{role}": used_s * per_page for role, used_s in crawled.used.by_role.items()},
        "us": (crawled.used.total_s + end_s) * per_page,
        "us_end": end_s * per_page,
        "max_rss_bytes": crawled.peak_rss_bytes,
    }


def _scrapy(web: SyntheticWeb, cell: CrawlCell, file: Path) -> Values:
    done = scrapy_with_text(file).crawl(web, concurrency=cell.slots, delay_s=0.0)
    covered = coverage(web.perfect_crawl(), web.ledger())
    if done.failed or not covered.is_exact:
        raise RunError(f"not the perfect crawl: {covered}, {done.failed} requests failed")
    return {
        "pages": done.pages,
        "pages_per_s": done.pages_per_s,
        "us": 1e6 / done.pages_per_cpu_s,
        "max_rss_bytes": done.max_rss_bytes,
    }


def _urls(file: Path) -> Iterator[str]:
    with file.open() as lines:
        for line in lines:
            yield json.loads(line)["url"]
