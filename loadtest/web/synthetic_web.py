"""The synthetic web: go/web, built and run as a process, and what it is asked about itself.

Names of its hosts are known to its own DNS server alone; `dns_server` is its address.
"""

import json
import os
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from devservers.http_server import HttpServer
from devservers.processes import Child
from loadtest.lib.programs import build_own
from loadtest.web.politeness import Visit

# Every address of its hosts is in here, or in the other one if it is on a network.
NETWORK = "127.0.0.0/8"
PRIVATE_NETWORK = "10.0.0.0/8"
# Seconds; a ledger of a million visits takes some.
CONTROL_TIMEOUT_S = 120.0

Profile = Literal["plain", "web"]
# What takes minutes, because a polite crawler waits for so long.
Extra = Literal["robots-5xx", "headerless-503", "drip", "bad-tls"]


@dataclass(frozen=True, slots=True)
class WebSpec:
    """What the web is; the same one is the same web. None: what the profile has."""

    hosts: int = 20
    # Of all hosts together, without what the profile `web` adds to them.
    pages: int = 200
    profile: Profile = "plain"
    seed: int = 1
    # The median; with a spread (sigma of a log-normal) of 0 it is the size of all.
    size_bytes: int | None = None
    size_spread: float | None = None
    latency_ms: float = 0.0
    latency_spread: float = 0.0
    cross_share: float = 0.1
    duplicate_share: float = 0.45
    # More pages of the first host.
    big_host_pages: int = 0
    has_tls: bool = False
    # Every answer ends its connection.
    closes: bool = False
    # For visitors from other machines: who starts it sees to it that the addresses lead there.
    is_on_network: bool = False
    extras: tuple[Extra, ...] = ()

    def arguments(self) -> list[str]:
        given: dict[str, object] = {
            "hosts": self.hosts,
            "pages": self.pages,
            "profile": self.profile,
            "seed": self.seed,
            "latency-ms": self.latency_ms,
            "latency-spread": self.latency_spread,
            "cross-share": self.cross_share,
            "duplicate-share": self.duplicate_share,
            "big-host-pages": self.big_host_pages,
            "tls": str(self.has_tls).lower(),
            "close": str(self.closes).lower(),
            "on-a-network": str(self.is_on_network).lower(),
            "with": ",".join(self.extras),
        }
        if self.size_bytes is not None:
            given["size"] = self.size_bytes
        if self.size_spread is not None:
            given["size-spread"] = self.size_spread
        return [f"-{name}={value}" for name, value in given.items()]


@dataclass(frozen=True, slots=True)
class Expected:
    """What a perfect, polite crawl from all front pages does with a URL, and what it ends as."""

    url: str
    # may: a trap, where each crawler draws its own line.
    verdict: Literal["must", "may", "never"]
    ends: Literal["done", "redirected", "failed", "skipped", "disallowed", "any", "unknown"]
    # "page", or the name of what is odd about it.
    kind: str


@dataclass(frozen=True, slots=True)
class Counts:
    requests: int
    robots: int
    # Answered with 200, without robots.txt.
    pages: int
    bytes: int
    statuses: dict[str, int]
    # By the clock of the ledger.
    now_ns: int
    connections: int
    dns_questions: int
    cpu_s: float


def build_web() -> Path:
    """Build the program and return it; a second call is quick."""
    return build_own("web")


def host_name(host: int) -> str:
    """Of each four hosts three share a registrable domain, and one is alone."""
    return f"w{host}.site{host // 4 * 2 + (host % 4 == 3)}.test"


def host_address(host: int) -> str:
    block, last = divmod(host, 250)
    return f"127.{1 + block // 256}.{block % 256}.{1 + last}"


class SyntheticWeb(HttpServer):
    """A context manager. Its `port` and `url` are those of its controls, not of its hosts."""

    name = "synthetic web"
    port_count = 4
    probe_path = "/control/ready"

    def __init__(self, spec: WebSpec) -> None:
        super().__init__()
        self.spec = spec

    @property
    def seeds(self) -> list[str]:
        """The front pages of all hosts."""
        scheme, port = ("https", self._port_number(2)) if self.spec.has_tls else self._plain()
        return [f"{scheme}://{host_name(host)}:{port}/" for host in range(self.spec.hosts)]

    @property
    def dns_server(self) -> str:
        return f"127.0.0.1:{self._port_number(3)}"

    @property
    def ca_file(self) -> Path:
        """Of its certificates, if it has TLS."""
        return self.data_dir / "ca.pem"

    @property
    def worker_settings(self) -> dict[str, str]:
        """What a worker needs to find its hosts, and to be allowed to."""
        network = PRIVATE_NETWORK if self.spec.is_on_network else NETWORK
        settings = {"FETCH_DNS_SERVERS": self.dns_server, "ALLOW_NETS": network}
        return settings | self.certificate_settings

    @property
    def certificate_settings(self) -> dict[str, str]:
        """OpenSSL and Go both read it: what is trusted instead of the system's authorities."""
        return {"SSL_CERT_FILE": str(self.ca_file)} if self.spec.has_tls else {}

    def counts(self) -> Counts:
        """What was asked of it since it started or was reset."""
        return Counts(**json.loads(self._ask("counts")))

    def ledger(self) -> list[Visit]:
        """Every request that was answered, in the order in which the answers ended."""
        return [Visit(**row) for row in self._rows("ledger")]

    def page_sizes(self) -> list[int]:
        """The bytes of every page that it gave, without robots.txt."""
        sizes: list[int] = json.loads(self._ask("sizes"))
        return sizes

    def perfect_crawl(self) -> dict[str, Expected]:
        """Everything that it has, by URL; it is not asked for a page."""
        return {row["url"]: Expected(**row) for row in self._rows("perfect")}

    def reset(self) -> None:
        """Forget all visits, as if it had just started."""
        self._ask("reset", method="POST")

    def _plain(self) -> tuple[str, int]:
        return "http", self._port_number(1)

    def _rows(self, what: str) -> Iterator[dict[str, Any]]:
        return (json.loads(line) for line in self._ask(what).splitlines())

    def _ask(self, what: str, method: str = "GET") -> bytes:
        request = urllib.request.Request(f"{self.url}/control/{what}", method=method)
        with urllib.request.urlopen(request, timeout=CONTROL_TIMEOUT_S) as answer:
            body: bytes = answer.read()
        return body

    def _start_child(self, ports: Sequence[int]) -> Child:
        control, http, https, dns = ports
        command = [
            *(str(build_web()), *self.spec.arguments()),
            *(f"-control-port={control}", f"-http-port={http}", f"-tls-port={https}"),
            *(f"-dns-port={dns}", f"-directory={self.data_dir}"),
        ]
        return Child(command, log=self.log, env=os.environ)
