"""The files of all shards, open to read from beside their owners."""

from pathlib import Path

from manyhands.shared.crawl.store.protocol import ShardReader
from manyhands.shared.crawl.store.sqlite.directory import open_reader, shard_file

# Of the file and of its log.
Identity = tuple[int, int]


class ShardReaders:
    """State: those that are open, and of which files. One that stands in a file's place now, as
    when a damaged one was replaced, is opened anew. Used in one thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._open: dict[tuple[int, int], tuple[Identity, ShardReader]] = {}

    def get(self, generation: int, shard: int) -> ShardReader | None:
        """None as long as the shard has had no owner. Raises StateError."""
        key = (generation, shard)
        file = shard_file(self._directory, generation, shard)
        known = self._open.get(key)
        if known is not None and known[0] == _identity(file):
            return known[1]
        self.forget(key)
        reader = open_reader(self._directory, generation, shard)
        if reader is not None:
            # Now, because to open it makes its log.
            self._open[key] = (_identity(file), reader)
        return reader

    def forget(self, key: tuple[int, int]) -> None:
        known = self._open.pop(key, None)
        if known is not None:
            known[1].close()

    def close(self) -> None:
        for key in list(self._open):
            self.forget(key)


def _identity(file: Path) -> Identity:
    return _inode(file), _inode(file.with_name(f"{file.name}-wal"))


def _inode(file: Path) -> int:
    try:
        return file.stat().st_ino
    except OSError:
        return 0
