"""The files of all shards, open to read from beside their owners."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from manyhands.shared.crawl.store.model import Layout
from manyhands.shared.crawl.store.protocol import ShardReader
from manyhands.shared.crawl.store.sqlite.database import StateError
from manyhands.shared.crawl.store.sqlite.directory import open_reader, shard_file

# Of the file and of its log.
Identity = tuple[int, int]


class ShardReaders:
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

    def each(self, layout: Layout, first: int = 0) -> Iterator[tuple[int, ShardReader]]:
        """The shards from `first` on that have had an owner, with their numbers. Raises
        StateError."""
        for shard in range(first, layout.shards):
            reader = self.get(layout.generation, shard)
            if reader is not None:
                yield shard, reader

    @contextlib.contextmanager
    def reopened_after_errors(self) -> Iterator[Self]:
        """After a StateError all are closed: next time another file may be in the place of one."""
        try:
            yield self
        except StateError:
            self.close()
            raise

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
