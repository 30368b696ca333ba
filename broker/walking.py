"""Reading a table whose pages may be damaged, record by record."""

import sqlite3
from collections.abc import Callable, Iterator
from typing import TypeVar

from manyhands.broker.damage import Damage, is_damage

# How far a step over keys that cannot be read goes at most, and into how many steps the rest of
# the keys is divided at least: so many times it is tried at most, each some microseconds.
LONGEST_STEP = 1024
MOST_STEPS = 4096

Record = TypeVar("Record")


class Walk:
    """One table, by its key. State: the connection, and where damage is told of."""

    def __init__(
        self, connection: sqlite3.Connection, damage: Damage, table: str, column: str
    ) -> None:
        self._connection = connection
        self._damage = damage
        self._table = table
        self._from = f"SELECT {column} FROM {table} NOT INDEXED WHERE {column}"
        self._order = f"<= ? ORDER BY {column} LIMIT"
        self._and = f"AND {column}"

    def read(
        self, after: int, upto: int, limit: int, read: Callable[[int], Record | None]
    ) -> list[Record]:
        """Up to `limit` records with keys in (after, upto]. `read` gets one; it tells of those
        that are not whole, and gives None for them and for those that are not wanted."""
        found: list[Record] = []
        for key in self.keys(after, upto):
            try:
                record = read(key)
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise
                self._damage.found_record(self._table, key, str(error))
                continue
            if record is not None:
                found.append(record)
                if len(found) == limit:
                    break
        return found

    def keys(self, after: int, upto: int) -> Iterator[int]:
        """Those that can be reached, in their order."""
        # Always asked for from a key on, never behind one: that could be on a damaged page.
        first: int | None = after + 1
        while first is not None:
            keys, error = self._some_keys(first, upto)
            yield from keys
            first = keys[-1] + 1 if keys else first
            if error is None and not keys:
                return
            if error is not None:
                is_readable, key = self._probe(first, upto)
                if is_readable:
                    # Python reads one row ahead, so the last one before the damage was not among
                    # them.
                    if key is not None:
                        yield key
                    first = None if key is None else key + 1
                    continue
                following = self._behind(first, upto)
                end = upto if following is None else following - 1
                self._damage.found(f"table {self._table}, keys {first} to {end}", str(error))
                first = following

    def _some_keys(self, first: int, upto: int) -> tuple[list[int], sqlite3.DatabaseError | None]:
        """Up to where they cannot be read; the error then. A page that stands in a place that is
        not its own gives keys that are too high: they come again where they belong."""
        keys: list[int] = []
        try:
            for (key,) in self._connection.execute(
                f"{self._from} >= ? {self._and} {self._order} {LONGEST_STEP}", (first, upto)
            ):
                if keys and key <= keys[-1]:
                    self._damage.found(f"table {self._table}, key {key}", "out of its order")
                    while keys and keys[-1] >= key:
                        keys.pop()
                if key >= first:
                    keys.append(key)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            return keys, error
        return keys, None

    def _behind(self, first: int, upto: int) -> int | None:
        """The first key that can be read behind `first`, which cannot; None when there is none."""
        longest = max(LONGEST_STEP, (upto - first) // MOST_STEPS)
        low, step = first, 1
        while True:
            if low >= upto:
                return None
            at, step = min(low + step, upto), min(2 * step, longest)
            is_readable, found = self._probe(at, upto)
            if is_readable:
                break
            low = at
        while at - low > 1:
            middle = (low + at) // 2
            is_readable, key = self._probe(middle, upto)
            if is_readable:
                at, found = middle, key
            else:
                low = middle
        return found

    def _probe(self, first: int, upto: int) -> tuple[bool, int | None]:
        try:
            row = self._connection.execute(
                f"{self._from} >= ? {self._and} {self._order} 1", (first, upto)
            ).fetchone()
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            return False, None
        return True, row[0] if row else None
