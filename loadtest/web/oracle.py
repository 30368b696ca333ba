"""What a crawl of the synthetic web should have fetched, and what it did. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from loadtest.web.politeness import Visit
from loadtest.web.synthetic_web import Expected

SAMPLES = 5


@dataclass(frozen=True, slots=True)
class Coverage:
    """Of the URLs that a perfect crawl asks for; the lists are sorted."""

    wanted: int
    fetched: int
    # Never asked for, although they should have been.
    missed: list[str]
    # Asked for, although they should not have been, or do not exist.
    unwanted: list[str]

    @property
    def is_exact(self) -> bool:
        return not self.missed and not self.unwanted

    def __str__(self) -> str:
        text = f"{self.fetched} of {self.wanted} URLs"
        for name, urls in (("missed", self.missed), ("unwanted", self.unwanted)):
            if urls:
                text += f"; {len(urls)} {name}, such as {', '.join(urls[:SAMPLES])}"
        return text


def coverage(perfect: Mapping[str, Expected], visits: Iterable[Visit]) -> Coverage:
    """Compare what the web has with what its ledger says; robots.txt apart."""
    visited = {visit.url for visit in visits if not visit.is_robots}
    wanted = wanted_urls(perfect)
    return Coverage(
        wanted=len(wanted),
        fetched=len(wanted & visited),
        missed=sorted(wanted - visited),
        unwanted=sorted(visited - wanted - _traps(perfect)),
    )


def wanted_urls(perfect: Mapping[str, Expected]) -> set[str]:
    """What every perfect crawl asks for."""
    return {url for url, expected in perfect.items() if expected.verdict == "must"}


def _traps(perfect: Mapping[str, Expected]) -> set[str]:
    return {url for url, expected in perfect.items() if expected.verdict == "may"}
