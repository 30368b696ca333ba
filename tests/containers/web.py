"""The synthetic web on the networks of containers, and their ways to it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from devservers.hosts import inside_namespace
from loadtest.web.oracle import Coverage, coverage
from loadtest.web.politeness import Verdict, Visit, judge
from loadtest.web.synthetic_web import PRIVATE_NETWORK, SyntheticWeb, WebSpec
from tests.containers.images import BASE
from tests.containers.podman import FILES, Podman

# Of its hosts.
ADDRESSES = "10.0.0.0/11"
NAME = "synthetic-web"


class ContainedWeb:
    """In the network namespace of a container that does nothing. State: the web, and how
    many of its visits have been looked at."""

    def __init__(self, podman: Podman, networks: Sequence[str], spec: WebSpec) -> None:
        self._podman = podman
        podman(
            *("run", "--detach", "--name", NAME, "--network", networks[0], "--ulimit", FILES),
            *(BASE, "sleep", "infinity"),
        )
        for network in networks[1:]:
            podman("network", "connect", network, NAME)
        self._pid = podman.pid(NAME)
        self._ip(self._pid, "route", "add", "local", ADDRESSES, "dev", "lo")
        self._marked = 0
        self._web = SyntheticWeb(spec)
        with self._inside():
            self._web.start()

    @property
    def seeds(self) -> list[str]:
        return self._web.seeds

    def settings(self, network: str) -> dict[str, str]:
        """For the workers of a network."""
        port = self._web.dns_server.rpartition(":")[2]
        address = self._podman.address(NAME, network)
        return {"FETCH_DNS_SERVERS": f"{address}:{port}", "ALLOW_NETS": PRIVATE_NETWORK}

    def lead(self, container: str, network: str) -> None:
        """Show a container the way to the hosts."""
        via = self._podman.address(NAME, network)
        self._ip(self._podman.pid(container), "route", "replace", ADDRESSES, "via", via)

    def verdict(self, delay_s: float) -> Verdict:
        """On all visits: what is known of robots.txt outlives a crawl. Pages that were asked for
        again are not against manners."""
        with self._inside():
            verdict = judge(self._web.ledger(), delay_s=delay_s)
        verdict.repeated.count = 0
        return verdict

    def mark(self) -> None:
        """What follows looks at the visits from here on."""
        with self._inside():
            self._marked = len(self._web.ledger())

    def pages(self) -> list[str]:
        """The URLs that were answered, one after the other, without robots.txt."""
        return [visit.url for visit in self._visits() if visit.status == 200]

    def coverage(self) -> Coverage:
        with self._inside():
            perfect = self._web.perfect_crawl()
        pages = {url: one for url, one in perfect.items() if one.kind != "robots"}
        return coverage(pages, self._visits())

    def _visits(self) -> list[Visit]:
        with self._inside():
            return [one for one in self._web.ledger()[self._marked :] if not one.is_robots]

    def stop(self) -> None:
        self._web.stop()
        self._podman("rm", "--force", "--time", "0", NAME)

    @contextmanager
    def _inside(self) -> Iterator[None]:
        with inside_namespace(Path(f"/proc/{self._pid}/ns/net")):
            yield

    def _ip(self, pid: int, *arguments: str) -> None:
        self._podman.run(["nsenter", f"--net=/proc/{pid}/ns/net", "ip", *arguments])
