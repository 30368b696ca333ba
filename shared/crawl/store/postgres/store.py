"""A state in PostgreSQL, as `protocol.Store` wants it. Several databases share the shards; the
first has the control tables as well."""

import contextlib
from collections.abc import Sequence

from manyhands.shared.crawl.store.errors import Undone
from manyhands.shared.crawl.store.model import NO_FETCHES, Fetches
from manyhands.shared.crawl.store.postgres.control import PostgresControl
from manyhands.shared.crawl.store.postgres.database import (
    MOST_CONNECTIONS,
    CommitInDoubt,
    Database,
)
from manyhands.shared.crawl.store.postgres.fence import Fence
from manyhands.shared.crawl.store.postgres.migration import migrate
from manyhands.shared.crawl.store.postgres.place import parse_place
from manyhands.shared.crawl.store.postgres.reader import PostgresReader
from manyhands.shared.crawl.store.postgres.readers import PostgresReaders
from manyhands.shared.crawl.store.postgres.rows import PostgresRows
from manyhands.shared.crawl.store.postgres.schema import Names, shard_names
from manyhands.shared.crawl.store.protocol import ControlStore, Progress
from manyhands.shared.crawl.store.shard import MOST_REPEATS, Shard
from manyhands.shared.crawl.store.whole.closing import refuse_closed

# Writers of a process that keep a server busy which is near: more would wait for each other.
NEAR_WRITERS = 3
# A transaction waits for some six answers, one after the other. From this distance on (there and
# back), most of its time is the way.
FAR_S = 0.002
# One connection of a process is left for the control store, so that leases are renewed whatever the
# shards do.
FAR_WRITERS = MOST_CONNECTIONS - 1


class PostgresStore:
    """State: the databases."""

    # A transaction is a dozen statements, whatever it changes.
    gather_s = 0.05
    directory = None
    can_reshard = False
    what_to_do = ""

    def __init__(self, urls: Sequence[str], *, is_patient: bool = False) -> None:
        self.databases = [Database(parse_place(url), is_patient=is_patient) for url in urls]
        self.absences = [database.absence for database in self.databases]

    @property
    def writers(self) -> int:
        is_far = any(database.round_trip_s >= FAR_S for database in self.databases)
        return FAR_WRITERS if is_far else NEAR_WRITERS

    def open_control(self) -> PostgresControl:
        control = self.open_any_control()
        refuse_closed(control.facts(), self.databases[0].place.shown)
        return control

    def open_any_control(self) -> PostgresControl:
        """Also of a state that no service may use."""
        first, *others = self.databases
        parts = len(self.databases)
        tag = migrate(first, 0, parts)
        for part, database in enumerate(others, 1):
            migrate(database, part, parts, tag)
        for database in self.databases:
            database.measure_round_trip()
        control = PostgresControl(first)
        control.set_clock()
        return control

    def open_shard(
        self, generation: int, shard: int, epoch: int, now: float, fetches: Fetches = NO_FETCHES
    ) -> Shard:
        store = Shard(PostgresRows(Fence(self.database_of(shard), generation, shard)), epoch)
        for _ in range(MOST_REPEATS):
            # To do it twice does no harm.
            with contextlib.suppress(Undone, CommitInDoubt):
                store.take_over(now, fetches)
                return store
        store.take_over(now, fetches)
        return store

    def open_reader(self, generation: int, shard: int) -> PostgresReader | None:
        database = self.database_of(shard)
        schema = database.place.schema
        found = database.ask(
            Names(schema).sql("SELECT 1 FROM @shards WHERE generation = %s AND shard = %s"),
            (generation, shard),
        )
        return PostgresReader(database, shard_names(schema, generation, shard)) if found else None

    def readers(self) -> PostgresReaders:
        return PostgresReaders(self.databases)

    def reshard(self, control: ControlStore, shards: int, on_progress: Progress) -> None:
        raise AssertionError(f"nobody may ask for {shards} shards: {control}, {on_progress}")

    def name_of(self, generation: int, shard: int) -> str:
        return f"shard {shard} of generation {generation} in {self.database_of(shard).place.shown}"

    def damaged(self, generation: int, shards: int) -> set[int]:
        """A server that finds its files damaged says so by itself, and is repaired as a whole."""
        del generation, shards
        return set()

    def note_damage(self, generation: int, shard: int, reason: str) -> None:
        raise AssertionError(f"no shard is damaged: {self.name_of(generation, shard)}: {reason}")

    def damaged_shards(self) -> list[str]:
        return []

    def close(self) -> None:
        for database in self.databases:
            database.close()

    def database_of(self, shard: int) -> Database:
        return self.databases[shard % len(self.databases)]
