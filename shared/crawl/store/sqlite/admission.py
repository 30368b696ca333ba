"""Queueing the URLs that a crawl has not seen, many at a time."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import urlsplit

from manyhands.shared.crawl.store.model import KEY_BYTES, Admitted, NewUrl
from manyhands.shared.crawl.store.sqlite.database import Database, to_json
from manyhands.shared.crawl.store.sqlite.tally import Tally

# Of one statement: what is looked up and inserted as one list.
MOST_AT_ONCE = 1000
ORIGINS_REMEMBERED = 4096

# Keys cannot stand in JSON: they come as one long value, and the list says which of them.
_KNOWN = (
    "SELECT json_group_array(value) FROM json_each(?1) WHERE EXISTS (SELECT 1 FROM seen"
    f" WHERE crawl = ?2 AND key = substr(?3, value * {KEY_BYTES} + 1, {KEY_BYTES}))"
)
_SEED_NAMES = (
    "SELECT json_group_array(name) FROM seed_names"
    " WHERE crawl = ? AND name IN (SELECT value FROM json_each(?))"
)
_ADD_SEED_NAMES = (
    "INSERT OR IGNORE INTO seed_names (crawl, name, domain)"
    " SELECT ?, value->>0, value->>1 FROM json_each(?)"
)
_OF_HOSTS = (
    "SELECT json_group_array((SELECT admitted FROM hosts WHERE crawl = ?1 AND origin ="
    " (SELECT id FROM origins WHERE origin = value))) FROM json_each(?2)"
)
_ADD_DOMAINS = "INSERT OR IGNORE INTO domains (name) SELECT value->>1 FROM json_each(?)"
_ADD_ORIGINS = (
    "INSERT OR IGNORE INTO origins (origin, domain) SELECT value->>0,"
    " (SELECT id FROM domains WHERE name = value->>1) FROM json_each(?)"
)
_ORIGIN_IDS = (
    "SELECT json_group_array((SELECT id FROM origins WHERE origin = value->>0)) FROM json_each(?)"
)
_ADD_URLS = (
    "INSERT INTO urls (id, crawl, origin, updated_at, depth, redirects, key, url)"
    " SELECT ?1 + key, ?2, value->>0, ?3, value->>1, value->>2,"
    f" substr(?4, key * {KEY_BYTES} + 1, {KEY_BYTES}), value->>3 FROM json_each(?5)"
)
_ADD_SEEN = (
    "INSERT INTO seen (crawl, key, url)"
    f" SELECT ?1, substr(?2, value * {KEY_BYTES} + 1, {KEY_BYTES}), ?3 + value FROM json_each(?4)"
)


@dataclass(slots=True)
class Places:
    """What a writer of a file need not ask it again. State: the ids of the origins last used, which
    are wrong after a transaction that failed, and in a transaction the id of the next URL."""

    origins: dict[str, int] = field(default_factory=dict)
    next_url: int | None = None

    def take_ids(self, database: Database, number: int) -> int:
        """So many ids of URLs; the first is returned."""
        first = self.next_url
        if first is None:
            first = int(database.value("SELECT coalesce(max(id), 0) + 1 FROM urls"))
        self.next_url = first + number
        return first

    def add_origins(self, database: Database, urls: Iterable[NewUrl]) -> None:
        """So that the ids of all their origins are known."""
        unknown = {url.origin: url.domain for url in urls if url.origin not in self.origins}
        if not unknown:
            return
        if len(self.origins) >= ORIGINS_REMEMBERED:
            self.origins.clear()
            unknown = {url.origin: url.domain for url in urls}
        listed = to_json(list(unknown.items()))
        database.run(_ADD_DOMAINS, (listed,))
        database.run(_ADD_ORIGINS, (listed,))
        self.origins.update(zip(unknown, database.listed(_ORIGIN_IDS, (listed,)), strict=True))


@dataclass(slots=True)
class Admission:
    """One call's rules. State: none."""

    database: Database
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
        places = self.database.listed(_KNOWN, (_numbers(len(keys)), self.crawl, b"".join(keys)))
        return {keys[place] for place in places}

    def _seed_names(self, names: set[str]) -> set[str]:
        if not names:
            return set()
        return set(self.database.listed(_SEED_NAMES, (self.crawl, to_json(list(names)))))

    def _room(self, origins: set[str]) -> dict[str, int] | None:
        """How many more URLs each of these origins may have; None: any number."""
        if self.host_limit is None or not origins:
            return None
        self.tally.write(self.database)
        listed = list(origins)
        counts = self.database.listed(_OF_HOSTS, (self.crawl, to_json(listed)))
        return {
            origin: self.host_limit - (count or 0)
            for origin, count in zip(listed, counts, strict=True)
        }

    def _add_seed_names(self, urls: Iterable[NewUrl]) -> None:
        names = {
            (name, domain)
            for origin, domain in {(url.origin, url.domain) for url in urls}
            for name in (_host(origin), domain)
        }
        self.database.run(_ADD_SEED_NAMES, (self.crawl, to_json(sorted(names))))

    def _insert(self, urls: list[NewUrl]) -> None:
        self.places.add_origins(self.database, urls)
        origin_ids = self.places.origins
        for origin, number in Counter([url.origin for url in urls]).items():
            self.tally.admitted(self.crawl, origin_ids[origin], number)
        # In the order of arrival; `seen` in the order of its keys, so that each of its pages is
        # touched once.
        first = self.places.take_ids(self.database, len(urls))
        keys = b"".join([url.key for url in urls])
        rows = [(origin_ids[url.origin], url.depth, url.redirects, url.url) for url in urls]
        self.database.run(_ADD_URLS, (first, self.crawl, self.now, keys, to_json(rows)))
        in_order = sorted(range(len(urls)), key=lambda place: urls[place].key)
        self.database.run(_ADD_SEEN, (self.crawl, keys, first, to_json(in_order)))

    def _count(self, admitted: Admitted) -> None:
        for name, number in (
            ("duplicates", admitted.duplicates),
            ("over_host_limit", admitted.over_host_limit),
            ("out_of_scope", admitted.out_of_scope),
        ):
            if number:
                self.tally.count(self.crawl, name, number)


@lru_cache(maxsize=MOST_AT_ONCE)
def _numbers(count: int) -> str:
    return to_json(list(range(count)))


@lru_cache(maxsize=ORIGINS_REMEMBERED)
def _host(origin: str) -> str:
    return urlsplit(origin).hostname or ""
