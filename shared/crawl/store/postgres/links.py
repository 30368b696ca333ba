"""Batches of links between shards, and robots.txt files, see `rows.ShardRows`."""

from collections.abc import Mapping

from manyhands.shared.crawl.store.model import Outgoing, StoredRobots
from manyhands.shared.crawl.store.postgres.arrays import numbers
from manyhands.shared.crawl.store.postgres.tables import ShardTables

_SEND = (
    "WITH next AS (INSERT INTO @sent AS sent VALUES (%s, 1)"
    " ON CONFLICT (target) DO UPDATE SET last = sent.last + 1 RETURNING last)"
    " INSERT INTO @outgoing SELECT %s, last, %s, %s FROM next RETURNING sequence"
)
# From each target in turn what is beyond its number, as far as the limit goes.
_OUTGOING = (
    "SELECT target, outgoing.sequence, crawl, payload FROM @outgoing AS outgoing"
    " LEFT JOIN unnest(%s::integer[], %s::bigint[]) AS known (target, sequence) USING (target)"
    " WHERE outgoing.sequence > coalesce(known.sequence, 0)"
    " ORDER BY target, outgoing.sequence LIMIT %s"
)
_FORGET = (
    "WITH gone AS (DELETE FROM @outgoing WHERE target = %s AND sequence <= %s RETURNING crawl)"
    " SELECT crawl, count(*) FROM gone GROUP BY crawl"
)
_UP_TO = "SELECT up_to FROM @received WHERE source = %s"
_ADD_AHEAD = "INSERT INTO @received_ahead VALUES (%s, %s) ON CONFLICT DO NOTHING RETURNING sequence"
# The end of the run of numbers that begins with the next one.
_END_OF_RUN = (
    "SELECT max(sequence) FROM (SELECT sequence, row_number() OVER (ORDER BY sequence) AS place"
    " FROM @received_ahead WHERE source = %s AND sequence > %s) AS ahead"
    " WHERE sequence = %s + place"
)


class PostgresLinks(ShardTables):
    """What an owner keeps for others, and of others."""

    def send(self, target: int, crawl: int, payload: bytes) -> Outgoing:
        [(sequence,)] = self._changed(_SEND, (target, target, crawl, payload))
        return Outgoing(target, sequence, crawl, payload)

    def outgoing(self, after: Mapping[int, int], limit: int) -> list[Outgoing]:
        rows = self._rows(_OUTGOING, (numbers(after), numbers(after.values()), limit))
        return [Outgoing(*row) for row in rows]

    def forget_outgoing(self, target: int, up_to: int) -> dict[int, int]:
        return dict(self._changed(_FORGET, (target, up_to)))

    def receive(self, source: int, sequence: int) -> bool:
        up_to = self._value(_UP_TO, (source,)) or 0
        if sequence <= up_to:
            return False
        is_new = bool(self._changed(_ADD_AHEAD, (source, sequence)))
        if sequence == up_to + 1:
            self._advance(source, up_to)
        return is_new

    def _advance(self, source: int, up_to: int) -> None:
        up_to = self._value(_END_OF_RUN, (source, up_to, up_to))
        self._send(
            "DELETE FROM @received_ahead WHERE source = %s AND sequence <= %s", (source, up_to)
        )
        self._send(
            "INSERT INTO @received VALUES (%s, %s)"
            " ON CONFLICT (source) DO UPDATE SET up_to = excluded.up_to",
            (source, up_to),
        )

    def robots(self, origin: str) -> StoredRobots | None:
        rows = self._rows(
            "SELECT kind, body, fetched_at, expires_at FROM @robots WHERE origin = %s", (origin,)
        )
        return StoredRobots(*rows[0]) if rows else None

    def keep_robots(self, origin: str, robots: StoredRobots) -> None:
        # An empty one takes room as well.
        size = len(robots.body) + len(origin)
        self._send(
            "INSERT INTO @robots (origin, kind, fetched_at, expires_at, size, body)"
            " VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (origin) DO UPDATE SET"
            " kind = excluded.kind, fetched_at = excluded.fetched_at,"
            " expires_at = excluded.expires_at, size = excluded.size, body = excluded.body",
            (origin, robots.kind, robots.fetched_at, robots.expires_at, size, robots.body),
        )

    def forget_robots(self, expired_before: float, most_bytes: int) -> None:
        """The index alone says which: bodies are not read."""
        self._send("DELETE FROM @robots WHERE expires_at < %s", (expired_before,))
        self._send(
            "DELETE FROM @robots WHERE origin IN (SELECT origin FROM (SELECT origin,"
            " sum(size) OVER (ORDER BY fetched_at DESC, origin) AS total FROM @robots) AS summed"
            " WHERE total > %s)",
            (most_bytes,),
        )
