"""The robots.txt files that a shard's owner has read."""

from collections.abc import Collection

from manyhands.shared.crawl.store.model import StoredRobots
from manyhands.shared.crawl.store.sqlite.database import Database, to_json


def robots(database: Database, origins: Collection[str]) -> dict[str, StoredRobots]:
    rows = database.rows(
        "SELECT origin, kind, body, fetched_at, expires_at FROM robots"
        " WHERE origin IN (SELECT value FROM json_each(?))",
        (to_json(list(origins)),),
    )
    return {origin: StoredRobots(*kept) for origin, *kept in rows}


def keep(database: Database, origin: str, robots: StoredRobots) -> None:
    # An empty one takes room as well.
    size = len(robots.body) + len(origin)
    database.run(
        "INSERT OR REPLACE INTO robots (origin, kind, fetched_at, expires_at, size, body)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (origin, robots.kind, robots.fetched_at, robots.expires_at, size, robots.body),
    )


def forget(database: Database, expired_before: float, most_bytes: int) -> None:
    """The index alone says which: bodies are not read."""
    database.run(
        "DELETE FROM robots WHERE rowid IN (SELECT rowid FROM robots WHERE expires_at < ?)",
        (expired_before,),
    )
    database.run(
        "DELETE FROM robots WHERE rowid IN (SELECT id FROM (SELECT rowid AS id,"
        " sum(size) OVER (ORDER BY fetched_at DESC, rowid) AS total FROM robots)"
        " WHERE total > ?)",
        (most_bytes,),
    )
