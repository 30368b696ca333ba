"""Tables of a state as all kinds of stores have them, and statements that all of them understand:
@ stands before the name of a table, %s for a value."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

Row = tuple[Any, ...]


class Tables(Protocol):
    """Those of one shard, or of the control store, to be read."""

    def ask(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """What it finds is of one moment, also beside an owner that writes."""


class OldTables(Tables, Protocol):
    """Of a shard, with what is not written alike everywhere."""

    # The key of a row of `urls`, as bytes.
    key_column: str

    def outgoing(self, after: tuple[int, int], limit: int) -> list[tuple[int, int, int, bytes]]:
        """Target, sequence, crawl and payload of the batches beyond that target and sequence, in
        this order."""


class WritableTables(Tables, Protocol):
    """All changes are made inside `transaction()`."""

    def transaction(self) -> AbstractContextManager[None]: ...

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None: ...

    def run_many(self, sql: str, rows: Iterable[Row]) -> None: ...
