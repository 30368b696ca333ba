"""Batches of links between shards: kept by the sender until the receiver has them."""

from collections import Counter
from collections.abc import Mapping, Sequence

from manyhands.shared.crawl.store.model import Outgoing
from manyhands.shared.crawl.store.sqlite.database import Database

SEQUENCE_BITS = 40
SEQUENCE_MASK = (1 << SEQUENCE_BITS) - 1


def send(database: Database, crawl: int, batches: Sequence[tuple[int, bytes]]) -> None:
    for target, payload in batches:
        sequence = database.value(
            "INSERT INTO sent VALUES (?, 1) ON CONFLICT DO UPDATE SET last = last + 1"
            " RETURNING last",
            (target,),
        )
        database.run(
            "INSERT INTO outgoing VALUES (?, ?, ?)", (_key(target, sequence), crawl, payload)
        )


def outgoing(database: Database, after: Mapping[int, int], limit: int) -> list[Outgoing]:
    """From each target in turn what is beyond its number, as far as the limit goes."""
    found: list[Outgoing] = []
    target = 0
    while len(found) < limit:
        first = database.value("SELECT min(key) FROM outgoing WHERE key >= ?", (_key(target, 0),))
        if first is None:
            break
        target = first >> SEQUENCE_BITS
        rows = database.rows(
            "SELECT key & ?, crawl, payload FROM outgoing WHERE key > ? AND key < ?"
            " ORDER BY key LIMIT ?",
            (
                SEQUENCE_MASK,
                _key(target, after.get(target, 0)),
                _key(target + 1, 0),
                limit - len(found),
            ),
        )
        found += [Outgoing(target, *row) for row in rows]
        target += 1
    return found


def forget(database: Database, up_to: Mapping[int, int]) -> dict[int, int]:
    """Forget what has been delivered; how many batches of which crawls."""
    forgotten: Counter[int] = Counter()
    for target, last in up_to.items():
        ours = (_key(target, 0), _key(target, last))
        crawls = database.rows("SELECT crawl FROM outgoing WHERE key > ? AND key <= ?", ours)
        if crawls:
            database.run("DELETE FROM outgoing WHERE key > ? AND key <= ?", ours)
        forgotten.update(crawl for (crawl,) in crawls)
    return forgotten


def receive(database: Database, batches: Sequence[tuple[int, int]]) -> list[int]:
    return [place for place, batch in enumerate(batches) if _receive_one(database, *batch)]


def _receive_one(database: Database, source: int, sequence: int) -> bool:
    up_to = database.value("SELECT up_to FROM received WHERE source = ?", (source,)) or 0
    if sequence <= up_to:
        return False
    is_new = database.run("INSERT OR IGNORE INTO received_ahead VALUES (?, ?)", (source, sequence))
    if sequence == up_to + 1:
        _advance(database, source, up_to)
    return is_new == 1


def _advance(database: Database, source: int, up_to: int) -> None:
    while database.run(
        "DELETE FROM received_ahead WHERE source = ? AND sequence = ?", (source, up_to + 1)
    ):
        up_to += 1
    database.run(
        "INSERT INTO received VALUES (?1, ?2) ON CONFLICT DO UPDATE SET up_to = ?2",
        (source, up_to),
    )


def _key(target: int, sequence: int) -> int:
    return target << SEQUENCE_BITS | sequence
