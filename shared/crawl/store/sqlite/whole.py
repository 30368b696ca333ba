"""A directory of SQLite files as a whole, see `whole.protocol`."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from manyhands.shared.crawl.store.clock import keep_time_of
from manyhands.shared.crawl.store.errors import StateDamaged, StateError
from manyhands.shared.crawl.store.sqlite.control import SqliteControl
from manyhands.shared.crawl.store.sqlite.database import open_file, open_for_reading
from manyhands.shared.crawl.store.sqlite.directory import (
    CONTROL_FILE,
    made_shards,
    open_shard,
    opened_tables,
)
from manyhands.shared.crawl.store.sqlite.new_generation import new_generation
from manyhands.shared.crawl.store.sqlite.reshard import clear
from manyhands.shared.crawl.store.sqlite.schema import CONTROL
from manyhands.shared.crawl.store.sqlite.tables import SqliteTables
from manyhands.shared.crawl.store.whole.new_shards import NewShards
from manyhands.shared.crawl.store.whole.tables import Row


class SqliteControlTables(SqliteTables):
    """State: the connection."""

    def add_rows(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        values = ", ".join("?" for _ in columns)
        self.database.run_many(
            f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})", rows
        )


class SqliteWhole:
    """State: the connections that were opened."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.shown = str(directory)
        self._opened = ExitStack()

    def look(self) -> SqliteTables | None:
        database = open_for_reading(self.directory / CONTROL_FILE, CONTROL)
        if database is None:
            return None
        self._opened.callback(database.close)
        version = database.value("PRAGMA user_version")
        if version != CONTROL.version:
            raise StateError(
                f"{self.shown} has version {version} of its tables, this release has"
                f" {CONTROL.version}: `manyhands state create` brings it up to date"
            )
        return SqliteTables(database)

    def open_control(self) -> tuple[SqliteControl, SqliteControlTables]:
        database = open_file(self.directory / CONTROL_FILE, CONTROL)
        self._opened.callback(database.close)
        keep_time_of(self.directory)
        return SqliteControl(database), SqliteControlTables(database)

    def made_shards(self, generation: int) -> list[int]:
        return made_shards(self.directory, generation)

    def opened_tables(self, generation: int, shard: int) -> AbstractContextManager[SqliteTables]:
        return opened_tables(self.directory, generation, shard)

    def take_over(self, generation: int, shard: int, epoch: int, now: float) -> None:
        open_shard(self.directory, generation, shard, epoch, now).close()

    def new_generation(self, generation: int, shards: int) -> AbstractContextManager[NewShards]:
        return new_generation(self.directory, generation, shards)

    def clear(self, kept: int) -> None:
        clear(self.directory, kept)

    def damage(self, generation: int, shard: int) -> str:
        try:
            with self.opened_tables(generation, shard) as tables:
                tables.database.look_through()
        except StateDamaged as error:
            return str(error)
        return ""

    def close(self) -> None:
        self._opened.close()
