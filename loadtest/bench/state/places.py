"""The places of a state that is measured: files in a directory of its own, or a schema of its own
in a PostgreSQL that runs for all measurements. What only the kind of store knows is asked here."""

import contextlib
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import psutil
import psycopg

from devservers import PostgresServer
from loadtest.bench.state.cells import SQLITE
from manyhands.shared.crawl.store.opening import tag_of
from manyhands.shared.crawl.store.postgres.place import parse_place
from manyhands.shared.crawl.store.sqlite.directory import shard_file

GENERATION = 1


class Place(Protocol):
    # As CRAWL_STATE names it.
    state: str

    def bytes_of_shards(self, shards: int) -> int: ...

    def fill_seen(self, shard: int, crawl: int, keys: Sequence[bytes]) -> None:
        """Put keys into the table of a shard that was opened before, in their order."""

    def server_cpu_s(self) -> float:
        """Of the server's processes, so far; 0 where there is none."""


class Files:
    """State: the directory."""

    def __init__(self, directory: Path) -> None:
        self.state = str(directory)

    def bytes_of_shards(self, shards: int) -> int:
        return sum(self._file(shard).stat().st_size for shard in range(shards))

    def fill_seen(self, shard: int, crawl: int, keys: Sequence[bytes]) -> None:
        with contextlib.closing(sqlite3.connect(self._file(shard), isolation_level=None)) as file:
            file.execute("BEGIN")
            file.executemany(
                "INSERT INTO seen (crawl, key, url) VALUES (?, ?, ?)",
                ((crawl, key, number) for number, key in enumerate(keys, 1)),
            )
            file.execute("COMMIT")
            file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def server_cpu_s(self) -> float:
        return 0.0

    def _file(self, shard: int) -> Path:
        return shard_file(Path(self.state), GENERATION, shard)


class Schema:
    """State: the server, and the name of the schema."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._name = f"bench_{secrets.token_hex(8)}"
        self.state = f"{server.url}?schema={self._name}"
        self._conninfo = parse_place(self.state).conninfo

    def bytes_of_shards(self, shards: int) -> int:
        """All tables of a shard with their indexes."""
        with psycopg.connect(self._conninfo) as connection:
            [(size,)] = connection.execute(
                "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class"
                " WHERE relnamespace = to_regnamespace(%s) AND relkind = 'r'"
                " AND relname ~ '^g[0-9]+_s' AND substring(relname, '_s([0-9]+)')::integer < %s",
                (self._name, shards),
            ).fetchall()
        return int(size)

    def fill_seen(self, shard: int, crawl: int, keys: Sequence[bytes]) -> None:
        table = f"{self._name}.g{GENERATION}_s{shard:04}_seen"
        into = f"COPY {table} (crawl, key, url) FROM STDIN"
        with psycopg.connect(self._conninfo) as connection, connection.cursor().copy(into) as copy:
            copy.write("".join(f"{crawl}\t{key.hex()}\t{at}\n" for at, key in enumerate(keys, 1)))

    def server_cpu_s(self) -> float:
        server = psutil.Process(self._server.pid)
        times = server.cpu_times()
        ended_s = times.children_user + times.children_system
        alive_s = 0.0
        for process in [server, *server.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                alive_s += process.cpu_times().user + process.cpu_times().system
        return float(ended_s + alive_s)


class Places:
    """State: the server, from the first time on that one is needed."""

    def __init__(self, opened: contextlib.ExitStack) -> None:
        self._opened = opened
        self._server: PostgresServer | None = None

    @contextlib.contextmanager
    def new(self, store: str) -> Iterator[Place]:
        if store == SQLITE:
            with TemporaryDirectory() as directory:
                yield Files(Path(directory))
            return
        if self._server is None:
            self._server = self._opened.enter_context(PostgresServer())
        place = Schema(self._server)
        tag_of((place.state,))
        # It goes with the server.
        yield place
