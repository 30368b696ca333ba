"""A state in SQLite files, as `protocol.Store` wants it."""

from pathlib import Path

from manyhands.shared.crawl.store.absence import Absence
from manyhands.shared.crawl.store.model import NO_FETCHES, Fetches
from manyhands.shared.crawl.store.protocol import ControlStore, Progress
from manyhands.shared.crawl.store.shard import Shard
from manyhands.shared.crawl.store.sqlite.control import SqliteControl
from manyhands.shared.crawl.store.sqlite.damage import (
    WHAT_TO_DO,
    damaged_shards,
    is_damaged,
    write_note,
)
from manyhands.shared.crawl.store.sqlite.directory import (
    open_control,
    open_reader,
    open_shard,
    shard_file,
)
from manyhands.shared.crawl.store.sqlite.reader import SqliteReader
from manyhands.shared.crawl.store.sqlite.readers import FileReaders
from manyhands.shared.crawl.store.sqlite.reshard import reshard


class SqliteStore:
    """State: the directory."""

    # Its files are on a disk of this machine: there is no way there to wait for.
    writers = 1
    gather_s = 0.01
    can_reshard = True
    what_to_do = WHAT_TO_DO

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        # Files are never away.
        self.absences = [Absence(str(directory))]

    def open_control(self) -> SqliteControl:
        return open_control(self.directory)

    def open_shard(
        self, generation: int, shard: int, epoch: int, now: float, fetches: Fetches = NO_FETCHES
    ) -> Shard:
        return open_shard(self.directory, generation, shard, epoch, now, fetches)

    def open_reader(self, generation: int, shard: int) -> SqliteReader | None:
        return open_reader(self.directory, generation, shard)

    def readers(self) -> FileReaders:
        return FileReaders(self.directory)

    def reshard(self, control: ControlStore, shards: int, on_progress: Progress) -> None:
        reshard(self.directory, control, shards, on_progress)

    def name_of(self, generation: int, shard: int) -> str:
        return str(shard_file(self.directory, generation, shard))

    def damaged(self, generation: int, shards: int) -> set[int]:
        files = {shard: shard_file(self.directory, generation, shard) for shard in range(shards)}
        return {shard for shard, file in files.items() if is_damaged(file)}

    def note_damage(self, generation: int, shard: int, reason: str) -> None:
        write_note(shard_file(self.directory, generation, shard), reason)

    def damaged_shards(self) -> list[str]:
        return damaged_shards(self.directory)

    def close(self) -> None:
        """Nothing of its own is open."""
