"""The directory CRAWL_STATE, and the files in it: `control.db`, and for every generation of the
layout `gen-<n>/shard-<nn>.db`. A file for each shard, so that owners never wait for each other."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from manyhands.shared.closing import closed_on_error
from manyhands.shared.crawl.store.clock import keep_time_of
from manyhands.shared.crawl.store.errors import StateDamaged, StateError
from manyhands.shared.crawl.store.model import NO_FETCHES, Fetches, LeaseLost
from manyhands.shared.crawl.store.shard import Shard
from manyhands.shared.crawl.store.sqlite.control import SqliteControl
from manyhands.shared.crawl.store.sqlite.damage import has_note, remove_note, write_note
from manyhands.shared.crawl.store.sqlite.database import Database, open_file, open_for_reading
from manyhands.shared.crawl.store.sqlite.reader import SqliteReader
from manyhands.shared.crawl.store.sqlite.rows import SqliteRows
from manyhands.shared.crawl.store.sqlite.schema import CONTROL, SHARD
from manyhands.shared.crawl.store.sqlite.tables import SqliteTables
from manyhands.shared.crawl.store.whole.closing import refuse_closed

CONTROL_FILE = "control.db"
# A new owner checks all pages of a file up to this size; that takes about 60 ms.
LOOKED_THROUGH_BYTES = 32 * 1024 * 1024


def generation_directory(directory: Path, generation: int) -> Path:
    return directory / f"gen-{generation}"


def generations(directory: Path) -> list[int]:
    """Those that have a directory."""
    names = [path.name.removeprefix("gen-") for path in directory.glob("gen-*")]
    return sorted(int(name) for name in names if name.isdigit())


def shard_file(directory: Path, generation: int, shard: int) -> Path:
    return generation_directory(directory, generation) / f"shard-{shard:02}.db"


def open_control(directory: Path) -> SqliteControl:
    database = open_file(directory / CONTROL_FILE, CONTROL)
    control = SqliteControl(database)
    with closed_on_error(control):
        refuse_closed(control.facts(), str(directory))
    keep_time_of(directory)
    return control


def open_shard(
    directory: Path,
    generation: int,
    shard: int,
    epoch: int,
    now: float,
    fetches: Fetches = NO_FETCHES,
) -> Shard:
    """As `protocol.Store.open_shard`; for a file that is damaged, a note is written for the other
    processes."""
    existing = generations(directory)
    if generation not in existing and max(existing, default=0) > generation:
        raise LeaseLost(f"the shards of generation {generation} were laid out anew")
    path = shard_file(directory, generation, shard)
    try:
        store = Shard(SqliteRows(_sound(path)), epoch)
        with closed_on_error(store):
            store.take_over(now, fetches)
    except StateDamaged as error:
        write_note(path, str(error))
        raise
    remove_note(path)
    return store


def _sound(path: Path) -> Database:
    """Checked if it is small, or was found damaged before."""
    database = open_file(path, SHARD)
    if has_note(path) or path.stat().st_size <= LOOKED_THROUGH_BYTES:
        with closed_on_error(database):
            database.look_through()
    return database


def open_reader(directory: Path, generation: int, shard: int) -> SqliteReader | None:
    """None as long as the shard has had no owner."""
    database = open_for_reading(shard_file(directory, generation, shard), SHARD)
    return None if database is None else SqliteReader(database)


def made_shards(directory: Path, generation: int) -> list[int]:
    """Those that have had an owner."""
    files = generation_directory(directory, generation).glob("shard-*.db")
    return sorted(int(file.stem.removeprefix("shard-")) for file in files)


@contextlib.contextmanager
def opened_tables(directory: Path, generation: int, shard: int) -> Iterator[SqliteTables]:
    """To read all that is in a shard."""
    path = shard_file(directory, generation, shard)
    database = open_for_reading(path, SHARD)
    if database is None:
        raise StateError(f"{path} is gone")
    with contextlib.closing(database):
        yield SqliteTables(database)
