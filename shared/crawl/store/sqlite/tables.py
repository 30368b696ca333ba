"""The tables of a file, for statements that all kinds of stores understand, see `whole.tables`."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

from manyhands.shared.crawl.store.sqlite.database import Database
from manyhands.shared.crawl.store.sqlite.links import SEQUENCE_BITS, SEQUENCE_MASK
from manyhands.shared.crawl.store.whole.tables import Row

_OUTGOING = "SELECT key >> ?, key & ?, crawl, payload FROM outgoing WHERE key > ? ORDER BY key"


class SqliteTables:
    """State: the connection."""

    key_column = "urls.key"

    def __init__(self, database: Database) -> None:
        self.database = database

    def ask(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        return self.database.rows(_dialect(sql), tuple(parameters))

    def outgoing(self, after: tuple[int, int], limit: int) -> list[tuple[int, int, int, bytes]]:
        target, sequence = after
        return self.database.rows(
            f"{_OUTGOING} LIMIT ?",
            (SEQUENCE_BITS, SEQUENCE_MASK, target << SEQUENCE_BITS | sequence, limit),
        )

    def transaction(self) -> AbstractContextManager[None]:
        return self.database.transaction()

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        self.database.run(_dialect(sql), tuple(parameters))

    def run_many(self, sql: str, rows: Iterable[Row]) -> None:
        self.database.run_many(_dialect(sql), rows)


@lru_cache(maxsize=256)
def _dialect(sql: str) -> str:
    return sql.replace("@", "").replace("%s", "?")
