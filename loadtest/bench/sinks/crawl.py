"""One crawl of the synthetic web into sinks, and what it costs: also the orderly end of the
service, which is when sinks finish their files. It counts only if the crawl was perfect and each
sink has each page exactly once."""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path

from devservers import PostgresServer
from loadtest.bench.crawl.cells import CrawlCell
from loadtest.bench.crawl.cpu import usage_of
from loadtest.bench.crawl.run import check_perfect, crawl_service
from loadtest.bench.sinks.cells import sinks_of_crawl
from loadtest.bench.sinks.stored import check_each_once, parquet_urls, postgres_rows, warc_urls
from loadtest.web.oracle import wanted_urls
from loadtest.web.synthetic_web import SyntheticWeb

Values = dict[str, float]


class CrawlPlaces:
    """Where the records of one crawl go. `urls` are the sinks, `stored` reads the pages back."""

    def __init__(self, sinks: tuple[str, ...], directory: Path, stack: ExitStack) -> None:
        self.urls: list[str] = []
        self.stored: dict[str, Callable[[], list[str]]] = {}
        self._server: PostgresServer | None = None
        if "warc" in sinks:
            place = directory / "warc"
            self.urls.append(f"warc:{place}")
            self.stored["warc"] = partial(warc_urls, place)
        if "parquet" in sinks:
            place = directory / "parquet"
            self.urls.append(f"parquet:{place}")
            self.stored["parquet"] = partial(parquet_urls, place)
        if "postgres" in sinks:
            self._server = stack.enter_context(PostgresServer())
            self.urls.append(self._server.url)
            self.stored["postgres"] = partial(postgres_rows, self._server.url, "url")

    @property
    def settings(self) -> dict[str, str]:
        return {"SINKS": ",".join(self.urls)} if self.urls else {}

    def server_cpu_s(self) -> float:
        """Of the database, which is not ours."""
        return usage_of([self._server.pid], {}).total_s if self._server else 0.0


def crawl_into_sinks(cell: CrawlCell, side: str) -> Values:
    """Raises RunError when the crawl or what the sinks have is not as it should be."""
    with (
        SyntheticWeb(cell.web) as web,
        tempfile.TemporaryDirectory() as name,
        ExitStack() as stack,
    ):
        directory = Path(name)
        places = CrawlPlaces(sinks_of_crawl(side), directory, stack)
        with crawl_service(web, cell, directory, places.settings) as service:
            server_before_s = places.server_cpu_s()
            crawled = service.crawl(web, lambda _roles: nullcontext())
            end_s = service.end()
            server_s = places.server_cpu_s() - server_before_s
        visited = check_perfect(web, crawled.counters)
        wanted = wanted_urls(web.perfect_crawl())
        for sink, stored in places.stored.items():
            check_each_once(sink, wanted, stored())
    per_page = 1e6 / visited.pages
    return {
        **visited.values(),
        **{f"us_{role}": used_s * per_page for role, used_s in crawled.used.by_role.items()},
        "us": crawled.used.total_s * per_page,
        "us_end": end_s * per_page,
        "us_server": server_s * per_page,
        "max_rss_bytes": crawled.peak_rss_bytes,
    }
