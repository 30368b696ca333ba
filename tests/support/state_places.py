"""Places where a state can be, of every kind, each gone with its test."""

import contextlib
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from devservers import PostgresServer
from manyhands.shared.crawl.store.opening import whole_at
from manyhands.shared.crawl.store.protocol import Progress
from manyhands.shared.crawl.store.whole.checking import Checked, check_state
from manyhands.shared.crawl.store.whole.copying import Copied, copy_state

KINDS = ("sqlite", "postgres")

# By its kind.
NewPlace = Callable[[str], str]


@pytest.fixture
def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewPlace]:
    with contextlib.ExitStack() as made:

        def new_place(kind: str) -> str:
            name = f"test_{secrets.token_hex(8)}"
            if kind == "sqlite":
                return str(tmp_path / name)
            server: PostgresServer = request.getfixturevalue("postgres")
            made.callback(_drop, server.url, name)
            return f"{server.url}?schema={name}"

        yield new_place


def _drop(url: str, schema: str) -> None:
    """In steps: a transaction can hold locks of only so many tables."""
    with psycopg.connect(url, autocommit=True) as connection:
        tables = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,)
        ).fetchall()
        for (table,) in tables:
            connection.execute(f"DROP TABLE {schema}.{table}")
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


def copied(
    source: str, target: str, shards: int | None = None, on_progress: Progress | None = None
) -> Copied | None:
    with contextlib.ExitStack() as opened:
        old, new = (
            opened.enter_context(contextlib.closing(whole_at((place,))))
            for place in (source, target)
        )
        return copy_state(old, new, shards, on_progress or ignore)


def checked(place: str) -> Checked:
    with contextlib.closing(whole_at((place,))) as whole:
        return check_state(whole, ignore)


def ignore(done: int, in_all: int) -> None:
    assert 0 <= done <= in_all
