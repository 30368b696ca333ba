"""Other crawlers over the synthetic web: how each is built and run, and what it tells of itself."""

import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from loadtest.lib.answering import answer_of
from loadtest.lib.programs import CACHE, PEERS, build_go
from loadtest.web.synthetic_web import SyntheticWeb, host_address

USER_AGENT = "CrawlBench/1.0 (bench@example.org)"
TIMEOUT_S = 1800.0


@dataclass(frozen=True, slots=True)
class PeerCrawl:
    """From the first request on: a crawler's own start does not count."""

    pages: int
    # Requests that came to nothing.
    failed: int
    seconds: float
    cpu_s: float
    max_rss_bytes: int

    @property
    def pages_per_s(self) -> float:
        return self.pages / self.seconds

    @property
    def pages_per_cpu_s(self) -> float:
        return self.pages / self.cpu_s


@dataclass(frozen=True, slots=True)
class PeerCrawler:
    name: str
    title: str
    # With so many seconds of delay.
    command: Callable[[float], list[str]]

    def crawl(self, web: SyntheticWeb, *, concurrency: int, delay_s: float) -> PeerCrawl:
        """Crawl all of it, from the front pages of all hosts; RunError if that goes wrong."""
        with tempfile.TemporaryDirectory() as place:
            seeds = Path(place) / "seeds"
            seeds.write_text(
                "".join(f"{url} {host_address(host)}\n" for host, url in enumerate(web.seeds))
            )
            command = [
                *self.command(delay_s),
                *("--seeds", str(seeds), "--concurrency", str(concurrency)),
                *("--user-agent", USER_AGENT),
            ]
            env = os.environ | web.certificate_settings
            told = answer_of(command, self.title, TIMEOUT_S, env=env, cwd=Path(place))
        return PeerCrawl(**told)


def scrapy() -> PeerCrawler:
    script = str(PEERS / "scrapy_crawl.py")
    return PeerCrawler(
        "scrapy", "Scrapy", lambda delay_s: [sys.executable, script, "--delay", str(delay_s)]
    )


def scrapy_with_text(records: Path) -> PeerCrawler:
    """What is found of each page is an item in this file."""
    script = str(PEERS / "scrapy_crawl.py")
    return PeerCrawler(
        "scrapy_text",
        "Scrapy with trafilatura",
        lambda delay_s: [
            *(sys.executable, script, "--delay", str(delay_s), "--records", str(records)),
        ],
    )


def colly() -> PeerCrawler:
    """Built first; a second call is quick. Its delay is that of a slot, it has none for a host."""
    program = build_go(CACHE / "go_colly" / "peer", PEERS / "go_colly")
    return PeerCrawler("colly", "Colly", lambda delay_s: [str(program), "--delay", f"{delay_s:f}s"])
