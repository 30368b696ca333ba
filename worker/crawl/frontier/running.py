"""Which crawls may fetch where: what the stores are asked for. Pure."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

# By domain, the crawls of which operators hold the URLs there; None: of all.
Held = Mapping[str, Collection[int | None]]


class Running(NamedTuple):
    """The crawls that run, and what is held of them."""

    crawls: tuple[int, ...] = ()
    held: Held = MappingProxyType({})

    def at(self, domain: str) -> tuple[int, ...]:
        if domain not in self.held:
            return self.crawls
        return tuple(crawl for crawl in self.crawls if not is_held(self.held, crawl, domain))


def is_held(held: Held, crawl: int, domain: str) -> bool:
    crawls = held.get(domain)
    return crawls is not None and (crawl in crawls or None in crawls)
