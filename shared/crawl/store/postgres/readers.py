"""All shards, read beside their owners. What is asked of each of them is one statement per
database: asked one after the other, 64 shards that are 5 ms away would take a third of a second."""

from collections.abc import Collection, Container, Iterator, Mapping, Sequence

from manyhands.shared.crawl.store.model import Due, ErrorGroup, JobRow, Layout, StoredOrigin
from manyhands.shared.crawl.store.postgres.arrays import uuids
from manyhands.shared.crawl.store.postgres.database import Database, Row
from manyhands.shared.crawl.store.postgres.reader import (
    COUNTERS,
    DUE,
    ERRORS,
    HAS_JOBS,
    JOBS,
    PUT_OFF_OF_CRAWL,
    RECEIVED,
    SEED_NAMES,
    PostgresReader,
    due_parameters,
)
from manyhands.shared.crawl.store.postgres.schema import Names, shard_names
from manyhands.shared.crawl.store.protocol import ShardReaders
from manyhands.shared.crawl.store.reader_words import counters_of_rows, error_of_row, job_of_row

_OWNED = "SELECT shard FROM @shards WHERE generation = %s"


class PostgresReaders(ShardReaders):
    """State: the shards of one generation that are known to have had an owner."""

    def __init__(self, databases: Sequence[Database]) -> None:
        self._databases = databases
        self._generation = 0
        self._known: dict[int, PostgresReader] = {}

    def get(self, generation: int, shard: int) -> PostgresReader | None:
        self._use(generation)
        if shard not in self._known:
            self._look(shard % len(self._databases))
        return self._known.get(shard)

    def close(self) -> None:
        self._known.clear()

    def each(self, layout: Layout, first: int = 0) -> Iterator[tuple[int, PostgresReader]]:
        # Those that nobody has owned yet are looked for together, and not one by one.
        missing = {shard for shard in range(first, layout.shards) if shard not in self._known}
        if layout.generation != self._generation or missing:
            self._look_everywhere(layout.generation)
        for shard in range(first, layout.shards):
            if shard in self._known:
                yield shard, self._known[shard]

    def counters(self, layout: Layout, crawl: int) -> list[dict[str, int]]:
        found = self._of_each(layout, COUNTERS, crawl)
        return [counters_of_rows(rows) for rows in found.values()]

    def errors(self, layout: Layout, crawl: int) -> list[ErrorGroup]:
        found = self._of_each(layout, ERRORS, crawl)
        return [error_of_row(row) for rows in found.values() for row in rows]

    def seed_names(self, layout: Layout, crawl: int, limit: int) -> list[str]:
        found = self._of_each(layout, SEED_NAMES, crawl, limit, most=limit)
        return [name for rows in found.values() for (name,) in rows][:limit]

    def put_off_of(self, layout: Layout, crawl: int, now: float, limit: int) -> list[StoredOrigin]:
        found = self._of_each(layout, PUT_OFF_OF_CRAWL, now, crawl, limit)
        return [StoredOrigin(*row) for rows in found.values() for row in rows]

    def jobs(self, layout: Layout, keys: Sequence[bytes]) -> list[JobRow]:
        # In two steps: to plan the whole question for each shard takes longer than to answer it.
        listed = uuids(keys)
        with_some = {
            shard for shard, rows in self._of_each(layout, HAS_JOBS, listed).items() if rows
        }
        found = self._of_each(layout, JOBS, listed, only=with_some)
        return [job_of_row(row) for rows in found.values() for row in rows]

    def due(
        self, layout: Layout, crawls: Sequence[int], now: float, owned: Container[int]
    ) -> list[Due]:
        unowned = {shard for shard in range(layout.shards) if shard not in owned}
        found: dict[int, list[Row]] = {}
        for is_owned, only in ((True, owned), (False, unowned)):
            asked = due_parameters(crawls, now, is_owned=is_owned)
            found |= self._of_each(layout, DUE, *asked, only=only)
        return [Due(*row) for rows in found.values() for row in rows]

    def received(
        self, layout: Layout, wanted: Mapping[int, Collection[int]]
    ) -> dict[int, dict[int, int]]:
        rows = self._of_each(layout, RECEIVED, only=wanted)
        arrived: dict[int, dict[int, int]] = {target: dict(found) for target, found in rows.items()}
        return {
            target: {source: arrived.get(target, {}).get(source, 0) for source in sources}
            for target, sources in wanted.items()
        }

    def _use(self, generation: int) -> None:
        if generation != self._generation:
            self.close()
            self._generation = generation

    def _look_everywhere(self, generation: int) -> None:
        self._use(generation)
        for part in range(len(self._databases)):
            self._look(part)

    def _look(self, part: int) -> None:
        """Which shards of one database are there by now."""
        database = self._databases[part]
        schema = database.place.schema
        for (shard,) in database.ask(Names(schema).sql(_OWNED), (self._generation,)):
            names = shard_names(schema, self._generation, shard)
            self._known.setdefault(shard, PostgresReader(database, names))

    def _of_each(
        self,
        layout: Layout,
        sql: str,
        *parameters: object,
        most: int | None = None,
        only: Container[int] | None = None,
    ) -> dict[int, list[Row]]:
        """The rows of each shard that has had an owner, or of some alone; at most so many of one
        database."""
        shards = [shard for shard, _ in self.each(layout) if only is None or shard in only]
        found: dict[int, list[Row]] = {shard: [] for shard in shards}
        for part, database in enumerate(self._databases):
            of_part = [shard for shard in shards if shard % len(self._databases) == part]
            asked = [
                f"(SELECT {shard}, found.* FROM ({names.sql(sql)}) AS found)"
                for shard in of_part
                if (names := shard_names(database.place.schema, layout.generation, shard))
            ]
            if asked:
                union = " UNION ALL ".join(asked) + " LIMIT %s"
                for shard, *row in database.ask(union, (*parameters * len(asked), most)):
                    found[shard].append(tuple(row))
        return found
