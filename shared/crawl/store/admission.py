"""Queueing the URLs that a crawl has not seen, many at a time."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import urlsplit

from manyhands.shared.crawl.store.model import Admitted, NewUrl
from manyhands.shared.crawl.store.rows import AdmissionRows
from manyhands.shared.crawl.store.tally import Tally

# Of one statement: what is looked up and inserted as one list.
MOST_AT_ONCE = 1000
ORIGINS_REMEMBERED = 4096


@dataclass(slots=True)
class Places:
    """What a shard's writer need not ask again. State: the ids of the origins last used, which
    are wrong after a transaction that failed, and in a transaction the id of the next URL."""

    origins: dict[str, int] = field(default_factory=dict)
    next_url: int | None = None

    def take_ids(self, rows: AdmissionRows, number: int) -> int:
        """So many ids of URLs; the first is returned."""
        first = self.next_url
        if first is None:
            first = rows.next_url_id()
        self.next_url = first + number
        return first

    def add_origins(self, rows: AdmissionRows, urls: Iterable[NewUrl]) -> None:
        """So that the ids of all their origins are known."""
        unknown = {url.origin: url.domain for url in urls if url.origin not in self.origins}
        if not unknown:
            return
        if len(self.origins) >= ORIGINS_REMEMBERED:
            self.origins.clear()
            unknown = {url.origin: url.domain for url in urls}
        ids = rows.origin_ids(list(unknown.items()))
        self.origins.update(zip(unknown, ids, strict=True))


@dataclass(slots=True)
class Admission:
    """One call's rules. State: none."""

    rows: AdmissionRows
    tally: Tally
    places: Places
    crawl: int
    now: float
    host_limit: int | None

    def admit(self, urls: Sequence[NewUrl], *, are_seeds: bool) -> Admitted:
        if are_seeds:
            self._add_seed_names(urls)
        admitted = Admitted()
        for start in range(0, len(urls), MOST_AT_ONCE):
            chosen = self._choose(urls[start : start + MOST_AT_ONCE], admitted)
            if chosen:
                self._insert(chosen)
        self._count(admitted)
        return admitted

    def _choose(self, urls: Sequence[NewUrl], admitted: Admitted) -> list[NewUrl]:
        """The new ones; why the others are not is counted."""
        known = self._known(urls)
        unknown = [url for url in urls if url.key not in known]
        seed_names = self._seed_names({url.scope_name for url in unknown if url.scope_name})
        room = self._room({url.origin for url in unknown})
        chosen = []
        for url in unknown:
            if url.key in known:
                continue
            if url.scope_name and url.scope_name not in seed_names:
                admitted.out_of_scope += 1
            elif room is not None and room[url.origin] <= 0:
                admitted.over_host_limit += 1
            else:
                if room is not None:
                    room[url.origin] -= 1
                known.add(url.key)
                chosen.append(url)
        refused = sum(url.key not in known for url in unknown)
        admitted.new += len(chosen)
        admitted.duplicates += len(urls) - len(chosen) - refused
        return chosen

    def _known(self, urls: Sequence[NewUrl]) -> set[bytes]:
        keys = [url.key for url in urls]
        return {keys[place] for place in self.rows.known(self.crawl, keys)}

    def _seed_names(self, names: set[str]) -> set[str]:
        if not names:
            return set()
        return set(self.rows.seed_names_among(self.crawl, list(names)))

    def _room(self, origins: set[str]) -> dict[str, int] | None:
        """How many more URLs each of these origins may have; None: any number."""
        if self.host_limit is None or not origins:
            return None
        self.tally.write(self.rows)
        listed = list(origins)
        counts = self.rows.admitted_of_hosts(self.crawl, listed)
        return {
            origin: self.host_limit - count for origin, count in zip(listed, counts, strict=True)
        }

    def _add_seed_names(self, urls: Iterable[NewUrl]) -> None:
        names = {
            (name, domain)
            for origin, domain in {(url.origin, url.domain) for url in urls}
            for name in (_host(origin), domain)
        }
        self.rows.add_seed_names(self.crawl, sorted(names))

    def _insert(self, urls: list[NewUrl]) -> None:
        self.places.add_origins(self.rows, urls)
        origin_ids = self.places.origins
        for origin, number in Counter([url.origin for url in urls]).items():
            self.tally.admitted(self.crawl, origin_ids[origin], number)
        first = self.places.take_ids(self.rows, len(urls))
        of_urls = [origin_ids[url.origin] for url in urls]
        self.rows.add_urls(first, self.crawl, self.now, urls, of_urls)

    def _count(self, admitted: Admitted) -> None:
        for name, number in (
            ("duplicates", admitted.duplicates),
            ("over_host_limit", admitted.over_host_limit),
            ("out_of_scope", admitted.out_of_scope),
        ):
            if number:
                self.tally.count(self.crawl, name, number)


@lru_cache(maxsize=ORIGINS_REMEMBERED)
def _host(origin: str) -> str:
    return urlsplit(origin).hostname or ""
