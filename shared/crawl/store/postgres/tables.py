"""The tables of one shard, asked inside its open transaction or beside it."""

from functools import lru_cache
from typing import Any

from manyhands.shared.crawl.store.postgres.database import Database, Parameters, Row, Session
from manyhands.shared.crawl.store.postgres.schema import Names


class ShardTables:
    """State: the open transaction, if there is one."""

    def __init__(self, database: Database, names: Names) -> None:
        self._database = database
        self._names = names
        self._session: Session | None = None

    def _rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        named = _named(self._names, sql)
        if self._session is None:
            return self._database.ask(named, parameters)
        return self._session.rows(named, parameters)

    def _listed(self, sql: str, parameters: Parameters = ()) -> list[Any]:
        """The first columns of all rows."""
        return [row[0] for row in self._rows(sql, parameters)]

    def _value(self, sql: str, parameters: Parameters = ()) -> Any:
        rows = self._rows(sql, parameters)
        return rows[0][0] if rows else None

    def _send(self, sql: str, parameters: Parameters = ()) -> None:
        self._open().send(_named(self._names, sql), parameters)

    def _changed(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        return self._open().changed(_named(self._names, sql), parameters)

    def _open(self) -> Session:
        assert self._session is not None, "outside of a transaction"
        return self._session


@lru_cache(maxsize=16_384)
def _named(names: Names, sql: str) -> str:
    return names.sql(sql)
