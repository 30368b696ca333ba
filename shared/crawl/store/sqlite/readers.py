"""The files of all shards, open to read from beside their owners."""

from pathlib import Path

from manyhands.shared.crawl.store.protocol import ShardReader, ShardReaders
from manyhands.shared.crawl.store.sqlite.directory import open_reader, shard_file

# Of the file and of its log.
Identity = tuple[int, int]


class FileReaders(ShardReaders):
    """State: the open readers of one generation, and which files they read. A file that replaced
    another, as after damage, is opened anew. Used in one thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._generation = 0
        self._open: dict[int, tuple[Identity, ShardReader]] = {}

    def get(self, generation: int, shard: int) -> ShardReader | None:
        """None as long as the shard has had no owner. Raises StateError."""
        if generation != self._generation:
            self.close()
            self._generation = generation
        file = shard_file(self._directory, generation, shard)
        known = self._open.get(shard)
        if known is not None and known[0] == _identity(file):
            return known[1]
        self._forget(shard)
        reader = open_reader(self._directory, generation, shard)
        if reader is not None:
            # Now, because to open it makes its log.
            self._open[shard] = (_identity(file), reader)
        return reader

    def close(self) -> None:
        for shard in list(self._open):
            self._forget(shard)

    def _forget(self, shard: int) -> None:
        known = self._open.pop(shard, None)
        if known is not None:
            known[1].close()


def _identity(file: Path) -> Identity:
    return _inode(file), _inode(file.with_name(f"{file.name}-wal"))


def _inode(file: Path) -> int:
    try:
        return file.stat().st_ino
    except OSError:
        return 0
