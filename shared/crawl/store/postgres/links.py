"""Batches of links between shards, and robots.txt files, see `rows.ShardRows`."""

from collections.abc import Collection, Mapping, Sequence

from manyhands.shared.crawl.store.model import Outgoing, StoredRobots
from manyhands.shared.crawl.store.postgres.arrays import numbers, texts
from manyhands.shared.crawl.store.postgres.tables import ShardTables

# `left` of its target come after it.
_SEND = (
    "WITH given AS MATERIALIZED (SELECT target, payload,"
    " row_number() OVER (PARTITION BY target ORDER BY place DESC) - 1 AS left"
    " FROM unnest(%s::integer[], %s::bytea[]) WITH ORDINALITY AS listed (target, payload, place)),"
    " sent AS (INSERT INTO @sent AS sent SELECT target, count(*) FROM given GROUP BY target"
    " ON CONFLICT (target) DO UPDATE SET last = sent.last + excluded.last RETURNING target, last)"
    " INSERT INTO @outgoing SELECT target, last - given.left, %s, payload"
    " FROM given JOIN sent USING (target)"
)
# From each target in turn what is beyond its number, as far as the limit goes.
_OUTGOING = (
    "SELECT target, outgoing.sequence, crawl, payload FROM @outgoing AS outgoing"
    " LEFT JOIN unnest(%s::integer[], %s::bigint[]) AS known (target, sequence) USING (target)"
    " WHERE outgoing.sequence > coalesce(known.sequence, 0)"
    " ORDER BY target, outgoing.sequence LIMIT %s"
)
_FORGET = (
    "WITH gone AS (DELETE FROM @outgoing AS outgoing"
    " USING unnest(%s::integer[], %s::bigint[]) AS arrived (target, up_to)"
    " WHERE outgoing.target = arrived.target AND sequence <= up_to RETURNING crawl)"
    " SELECT crawl, count(*) FROM gone GROUP BY crawl"
)
_ADD_AHEAD = (
    "INSERT INTO @received_ahead SELECT source, sequence"
    " FROM unnest(%s::integer[], %s::bigint[]) AS given (source, sequence) WHERE sequence >"
    " coalesce((SELECT up_to FROM @received WHERE source = given.source), 0)"
    " ON CONFLICT DO NOTHING RETURNING source, sequence"
)
# To the end of the run of numbers that begins with the next one.
_ADVANCE = (
    "WITH ends AS MATERIALIZED (SELECT source, max(sequence) AS up_to FROM"
    " (SELECT source, sequence, row_number() OVER (PARTITION BY source ORDER BY sequence) +"
    " coalesce((SELECT up_to FROM @received WHERE source = ahead.source), 0) AS of_run"
    " FROM @received_ahead AS ahead WHERE source = ANY(%s::integer[])) AS numbered"
    " WHERE sequence = of_run GROUP BY source),"
    " gone AS (DELETE FROM @received_ahead AS ahead USING ends"
    " WHERE ahead.source = ends.source AND ahead.sequence <= ends.up_to)"
    " INSERT INTO @received SELECT source, up_to FROM ends"
    " ON CONFLICT (source) DO UPDATE SET up_to = excluded.up_to"
)


class PostgresLinks(ShardTables):
    """What an owner keeps for others, and of others."""

    def send(self, crawl: int, batches: Sequence[tuple[int, bytes]]) -> None:
        targets, payloads = zip(*batches, strict=True)
        self._send(_SEND, (numbers(targets), list(payloads), crawl))

    def outgoing(self, after: Mapping[int, int], limit: int) -> list[Outgoing]:
        rows = self._rows(_OUTGOING, (numbers(after), numbers(after.values()), limit))
        return [Outgoing(*row) for row in rows]

    def forget_outgoing(self, up_to: Mapping[int, int]) -> dict[int, int]:
        return dict(self._changed(_FORGET, (numbers(up_to), numbers(up_to.values()))))

    def receive(self, batches: Sequence[tuple[int, int]]) -> list[int]:
        sources, sequences = zip(*batches, strict=True)
        new = set(self._changed(_ADD_AHEAD, (numbers(sources), numbers(sequences))))
        if new:
            self._send(_ADVANCE, (numbers({source for source, _ in new}),))
        # Of those that are there twice the first.
        places = {batch: place for place, batch in reversed(list(enumerate(batches)))}
        return sorted(places[batch] for batch in new)

    def robots(self, origins: Collection[str]) -> dict[str, StoredRobots]:
        rows = self._rows(
            "SELECT origin, kind, body, fetched_at, expires_at FROM @robots"
            " WHERE origin = ANY(%s::text[])",
            (texts(list(origins)),),
        )
        return {origin: StoredRobots(*kept) for origin, *kept in rows}

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
