"""What a transaction has added up, written to the file, see `rows.TallyRows`."""

from collections.abc import Sequence

from manyhands.shared.crawl.store.sqlite.database import Database, to_json

_ADD_COUNTERS = (
    "INSERT INTO counters (crawl, name, value)"
    " SELECT value->>0, value->>1, value->>2 FROM json_each(?) WHERE true"
    " ON CONFLICT DO UPDATE SET value = value + excluded.value"
)
_ADD_TO_ORIGINS = (
    "UPDATE origins SET queued = queued + (changed.value->>1) FROM json_each(?) AS changed"
    " WHERE origins.id = changed.value->>0"
)
_ADD_TO_DOMAINS = (
    "UPDATE domains SET queued = queued + changed.number FROM"
    " (SELECT domain, sum(value->>1) AS number FROM json_each(?)"
    " JOIN origins ON origins.id = value->>0 GROUP BY domain HAVING number <> 0) AS changed"
    " WHERE domains.id = changed.domain"
)
_ADD_TO_HOSTS = (
    "INSERT INTO hosts (crawl, origin, admitted)"
    " SELECT value->>0, value->>1, value->>2 FROM json_each(?) WHERE true"
    " ON CONFLICT DO UPDATE SET admitted = admitted + excluded.admitted"
)
_ADD_ERRORS = (
    "INSERT INTO errors (crawl, reason, count, sample_url, first_at, last_at)"
    " SELECT value->>0, value->>1, value->>2, value->>3, value->>4, value->>5"
    " FROM json_each(?) WHERE true"
    " ON CONFLICT DO UPDATE SET count = count + excluded.count,"
    " first_at = min(first_at, excluded.first_at), last_at = max(last_at, excluded.last_at)"
)
_KEEP_DOMAINS = (
    "UPDATE domains SET next_at = kept.value->>1, delay_s = kept.value->>2,"
    " taken = taken * (kept.value->>3) FROM json_each(?) AS kept WHERE domains.id = kept.value->>0"
)
_KEEP_ORIGINS = (
    "UPDATE origins SET ready_at = kept.value->>1,"
    " notes = substr(?2, kept.value->>2, kept.value->>3)"
    " FROM json_each(?1) AS kept WHERE origins.id = kept.value->>0"
)


class SqliteTallyRows:
    """State: the connection."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add_to_counters(self, rows: Sequence[tuple[int, str, int]]) -> None:
        self._database.run(_ADD_COUNTERS, (to_json(rows),))

    def add_to_queued(self, rows: Sequence[tuple[int, int]]) -> None:
        listed = to_json(rows)
        self._database.run(_ADD_TO_ORIGINS, (listed,))
        self._database.run(_ADD_TO_DOMAINS, (listed,))

    def add_to_hosts(self, rows: Sequence[tuple[int, int, int]]) -> None:
        self._database.run(_ADD_TO_HOSTS, (to_json(rows),))

    def reasons(self, crawl: int) -> list[str]:
        return self._database.listed(
            "SELECT json_group_array(reason) FROM errors WHERE crawl = ?", (crawl,)
        )

    def add_to_errors(self, rows: Sequence[tuple[int, str, int, str, float, float]]) -> None:
        self._database.run(_ADD_ERRORS, (to_json(rows),))

    def keep_domains(self, rows: Sequence[tuple[int, float, float, bool]]) -> None:
        self._database.run(_KEEP_DOMAINS, (to_json(rows),))

    def keep_origins(self, rows: Sequence[tuple[int, float, bytes]]) -> None:
        # SQLite has no part of an empty value: it begins with a byte that belongs to none.
        places, at = [], 2
        for origin, ready_at, notes in rows:
            places.append((origin, ready_at, at, len(notes)))
            at += len(notes)
        together = b"".join([b"\0", *(notes for _, _, notes in rows)])
        self._database.run(_KEEP_ORIGINS, (to_json(places), together))
