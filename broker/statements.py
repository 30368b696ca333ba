"""Statements about whole queues and sets: each list is one transaction (`Store.run_alone`)."""

from collections.abc import Collection
from typing import Any

import orjson

from manyhands.broker.schema import SEQUENCE_BITS, key_ranges
from manyhands.broker.tally import TALLY_NAMES

Statement = tuple[str, tuple[Any, ...]]

_KEPT_COUNTERS = ", ".join(f"'{name}'" for name in ("closed", *TALLY_NAMES))


def clear_queues(cleared: set[int], others: set[int], kept_keys: list[int]) -> list[Statement]:
    """Delete the jobs of queues but for some keys; `others` are the queues that have jobs, too."""
    kept = orjson.dumps(kept_keys).decode()
    return [
        *(
            (
                "DELETE FROM jobs WHERE key > ? AND key < ?"
                " AND key NOT IN (SELECT value FROM json_each(?))",
                (first, end, kept),
            )
            for first, end in key_ranges(cleared, others)
        ),
        (
            "UPDATE queues SET is_paused = 0, rows = (SELECT count(*) FROM json_each(?2)"
            f" WHERE value >> {SEQUENCE_BITS} = queues.id)"
            " WHERE id IN (SELECT value FROM json_each(?1))",
            (orjson.dumps(list(cleared)).decode(), kept),
        ),
    ]


def forget_queues(numbers: Collection[int]) -> list[Statement]:
    """Queues without jobs."""
    return [
        (
            "DELETE FROM queues WHERE id IN (SELECT value FROM json_each(?))",
            (orjson.dumps(list(numbers)).decode(),),
        )
    ]


def clear_set(kind: str) -> list[Statement]:
    return [
        ("DELETE FROM sets WHERE kind = ?", (kind,)),
        ("UPDATE counters SET value = 0 WHERE name = ?", (kind,)),
    ]


def put_off_set(kind: str, by_s: float) -> list[Statement]:
    return [("UPDATE sets SET at = at + ? WHERE kind = ?", (by_s, kind))]


def clear_everything() -> list[Statement]:
    """But for the names of queues, and how this file was left."""
    return [
        *((f"DELETE FROM {table}", ()) for table in ("jobs", "reservations", "sets", "gone")),
        (f"DELETE FROM counters WHERE name NOT IN ({_KEPT_COUNTERS})", ()),
        ("UPDATE queues SET is_paused = 0, rows = 0", ()),
    ]
