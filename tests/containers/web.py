"""The synthetic web beyond the networks of containers, and how it was visited."""

from loadtest.web.oracle import Coverage, coverage, wanted_urls
from loadtest.web.politeness import Verdict, Visit, judge
from loadtest.web.synthetic_web import PRIVATE_NETWORK, Expected, SyntheticWeb, WebSpec
from tests.containers.outside import Outside

# Of its hosts.
ADDRESSES = "10.0.0.0/11"


class ContainedWeb:
    """State: the web, and how many of its visits have been looked at."""

    def __init__(self, outside: Outside, spec: WebSpec) -> None:
        self._outside = outside
        outside.lead(ADDRESSES)
        self._marked = 0
        self._web = SyntheticWeb(spec)
        with outside.inside():
            self._web.start()

    @property
    def seeds(self) -> list[str]:
        return self._web.seeds

    def settings(self, network: str) -> dict[str, str]:
        """For the workers of a network."""
        port = self._web.dns_server.rpartition(":")[2]
        address = self._outside.address(network)
        return {"FETCH_DNS_SERVERS": f"{address}:{port}", "ALLOW_NETS": PRIVATE_NETWORK}

    def mark(self) -> None:
        """What follows looks at the visits from here on."""
        self._marked = len(self._ledger())

    def verdict(self, delay_s: float) -> Verdict:
        """What is known of robots.txt outlives a crawl, so all visits to these count. Pages that
        were asked for again are not against manners."""
        ledger = self._ledger()
        earlier = [visit for visit in ledger[: self._marked] if visit.is_robots]
        verdict = judge([*earlier, *ledger[self._marked :]], delay_s=delay_s)
        verdict.repeated.count = 0
        return verdict

    def pages(self) -> list[str]:
        """The URLs that were answered, one after the other, without robots.txt."""
        return [visit.url for visit in self._visits() if visit.status == 200]

    def all_pages(self) -> list[str]:
        """The URLs that a whole crawl asks for."""
        return sorted(wanted_urls(self._perfect()))

    def coverage(self) -> Coverage:
        return coverage(self._perfect(), self._visits())

    def stop(self) -> None:
        self._web.stop()

    def _perfect(self) -> dict[str, Expected]:
        with self._outside.inside():
            perfect = self._web.perfect_crawl()
        return {url: one for url, one in perfect.items() if one.kind != "robots"}

    def _visits(self) -> list[Visit]:
        return [one for one in self._ledger()[self._marked :] if not one.is_robots]

    def _ledger(self) -> list[Visit]:
        with self._outside.inside():
            return self._web.ledger()
