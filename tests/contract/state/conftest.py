"""The stores that must all behave alike: the suite runs against each of them."""

import contextlib
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import psycopg
import pytest

from devservers import PostgresServer
from manyhands.shared.crawl.store.model import NO_FETCHES, Fetches
from manyhands.shared.crawl.store.postgres.store import PostgresStore
from manyhands.shared.crawl.store.protocol import (
    ControlStore,
    ShardReader,
    ShardReaders,
    ShardStore,
)
from manyhands.shared.crawl.store.sqlite.directory import open_control, open_reader, open_shard
from manyhands.shared.crawl.store.sqlite.readers import FileReaders
from tests.contract.state.helpers import NOW


class Stores(Protocol):
    """Ways into one and the same state."""

    def control(self) -> ControlStore: ...

    def shard(
        self,
        epoch: int,
        now: float = NOW,
        number: int = 0,
        fetches: Fetches = NO_FETCHES,
    ) -> ShardStore: ...

    def reader(self, number: int = 0) -> ShardReader | None: ...

    def readers(self) -> ShardReaders: ...


class SqliteStores:
    """State: the directory, and what is to be closed."""

    def __init__(self, directory: Path, opened: contextlib.ExitStack) -> None:
        self._directory = directory
        self._opened = opened

    def control(self) -> ControlStore:
        control = open_control(self._directory)
        self._opened.callback(control.close)
        return control

    def shard(
        self,
        epoch: int,
        now: float = NOW,
        number: int = 0,
        fetches: Fetches = NO_FETCHES,
    ) -> ShardStore:
        shard = open_shard(self._directory, 1, number, epoch, now, fetches)
        self._opened.callback(shard.close)
        return shard

    def reader(self, number: int = 0) -> ShardReader | None:
        reader = open_reader(self._directory, 1, number)
        if reader is not None:
            self._opened.callback(reader.close)
        return reader

    def readers(self) -> ShardReaders:
        readers = FileReaders(self._directory)
        self._opened.callback(readers.close)
        return readers


class PostgresStores:
    """State: a schema of its own, which goes with the test: a server brings the tables of all that
    there are to the disk before it ends."""

    def __init__(self, url: str, opened: contextlib.ExitStack) -> None:
        schema = f"test_{secrets.token_hex(8)}"
        self._store = PostgresStore([f"{url}?schema={schema}"])
        opened.callback(_drop, url, schema)
        opened.callback(self._store.close)
        self._store.open_control()

    def control(self) -> ControlStore:
        return self._store.open_control()

    def shard(
        self,
        epoch: int,
        now: float = NOW,
        number: int = 0,
        fetches: Fetches = NO_FETCHES,
    ) -> ShardStore:
        return self._store.open_shard(1, number, epoch, now, fetches)

    def reader(self, number: int = 0) -> ShardReader | None:
        return self._store.open_reader(1, number)

    def readers(self) -> ShardReaders:
        return self._store.readers()


def _drop(url: str, schema: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


MakeStores = Callable[[Path, contextlib.ExitStack], Stores]


def _postgres(request: pytest.FixtureRequest) -> MakeStores:
    server: PostgresServer = request.getfixturevalue("postgres")
    return lambda _, opened: PostgresStores(server.url, opened)


# One that joins here has to pass every test.
STORES: dict[str, Callable[[pytest.FixtureRequest], MakeStores]] = {
    "sqlite": lambda _: SqliteStores,
    "postgres": _postgres,
}


@pytest.fixture(params=STORES)
def make_stores(request: pytest.FixtureRequest) -> MakeStores:
    return STORES[request.param](request)


@pytest.fixture
def stores(make_stores: MakeStores, tmp_path: Path) -> Iterator[Stores]:
    with contextlib.ExitStack() as opened:
        yield make_stores(tmp_path / "state", opened)


@pytest.fixture
def shard(stores: Stores) -> ShardStore:
    return stores.shard(epoch=1)


@pytest.fixture
def control(stores: Stores) -> ControlStore:
    return stores.control()
