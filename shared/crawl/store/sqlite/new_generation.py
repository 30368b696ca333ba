"""The files of a generation that is being built, and of which there is nothing before it is
complete."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from manyhands.shared.crawl.store.sqlite import links as sqlite_links
from manyhands.shared.crawl.store.sqlite.database import Database, make_file
from manyhands.shared.crawl.store.sqlite.directory import generation_directory
from manyhands.shared.crawl.store.sqlite.schema import SHARD
from manyhands.shared.crawl.store.sqlite.tables import SqliteTables
from manyhands.shared.crawl.store.sqlite.tally_rows import SqliteTallyRows
from manyhands.shared.crawl.store.whole.new_shards import NewShards
from manyhands.shared.crawl.store.whole.tables import Row

CACHES_BYTES = 128 * 1024 * 1024
LEAST_CACHE_BYTES = 256 * 1024

_ADD_URL = (
    "INSERT INTO urls (id, origin, crawl, state, attempts, not_before, status, updated_at, depth,"
    " redirects, key, url, reason, job, note) VALUES (?, (SELECT id FROM origins WHERE origin = ?),"
    " ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


@contextlib.contextmanager
def new_generation(directory: Path, generation: int, shards: int) -> Iterator[NewShards]:
    """What is added inside is there at its end, if no error comes first."""
    part = directory / f"gen-{generation}.part"
    part.mkdir(parents=True)
    cache_bytes = max(LEAST_CACHE_BYTES, CACHES_BYTES // shards)
    with contextlib.ExitStack() as opened:
        files = []
        for shard in range(shards):
            files.append(make_file(part / f"shard-{shard:02}.db", SHARD, cache_bytes))
            opened.callback(files[-1].close)
        new = NewShards([SqliteNewShard(file) for file in files])
        yield new
        new.finish()
    part.rename(generation_directory(directory, generation))
    sync(directory)


class SqliteNewShard(SqliteTables):
    """State: its file, and the next id of a URL."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.tally_rows = SqliteTallyRows(database)
        self._next_url = 1

    def add_urls(self, rows: Sequence[Row]) -> None:
        numbered = [(self._next_url + place, *row) for place, row in enumerate(rows)]
        self._next_url += len(rows)
        self.database.run_many(_ADD_URL, numbered)
        seen = sorted((row[2], row[10], row[0]) for row in numbered)
        self.database.run_many("INSERT INTO seen VALUES (?, ?, ?)", seen)

    def send(self, crawl: int, batches: Sequence[tuple[int, bytes]]) -> None:
        sqlite_links.send(self.database, crawl, batches)

    def finish(self) -> None:
        sync(self.database.path)


def sync(path: Path) -> None:
    """Bring a file or a directory to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
