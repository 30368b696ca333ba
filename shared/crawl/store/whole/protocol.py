"""What a kind of store must know how to do with a state as a whole. Services never need it."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from manyhands.shared.crawl.store.protocol import ControlStore
from manyhands.shared.crawl.store.whole.new_shards import NewShards
from manyhands.shared.crawl.store.whole.tables import OldTables, Row, Tables, WritableTables


class ControlTables(WritableTables, Protocol):
    """Those of the control store. A transaction keeps all others from changing crawls."""

    def add_rows(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """With their ids; later ones get higher ids."""


class WholeStore(Protocol):
    """State: what is open of it."""

    @property
    def shown(self) -> str:
        """For people, without what opens doors."""

    @property
    def directory(self) -> Path | None:
        """As `Store.directory`."""

    def look(self) -> Tables | None:
        """The control tables, to be read: changes nothing. None: there is no state. Raises
        StateError when they have to be brought up to date first."""

    def open_control(self) -> tuple[ControlStore, ControlTables]:
        """Also of one that is closed; made if there is none."""

    def made_shards(self, generation: int) -> list[int]:
        """Those that have had an owner."""

    def opened_tables(self, generation: int, shard: int) -> AbstractContextManager[OldTables]:
        """Of a shard that has had an owner."""

    def take_over(self, generation: int, shard: int, epoch: int, now: float) -> None:
        """As `Store.open_shard`, for somebody who only reads it then."""

    def new_generation(self, generation: int, shards: int) -> AbstractContextManager[NewShards]:
        """What is added inside is complete at its end, if no error comes first."""

    def clear(self, kept: int) -> None:
        """Remove the shards of all other generations, also those that were not completed."""

    def damage(self, generation: int, shard: int) -> str:
        """What the store itself finds wrong with a shard; empty: nothing."""

    def close(self) -> None: ...


def facts_of(tables: Tables) -> Mapping[str, int]:
    return dict(tables.ask("SELECT name, value FROM @facts"))


def set_facts(tables: WritableTables, facts: Mapping[str, int]) -> None:
    """Inside a transaction."""
    tables.run_many(
        "INSERT INTO @facts (name, value) VALUES (%s, %s)"
        " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        list(facts.items()),
    )
