"""Which files the store takes, and that it leaves others as they are."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from manyhands.broker import schema
from manyhands.broker.batches import Push
from manyhands.broker.directory import DATABASE, restore
from manyhands.broker.schema import APPLICATION_ID, PAGE_BYTES, SEQUENCE_BITS, VERSION
from manyhands.shared.errors import ConfigError
from tests.unit.broker.stores import open_store, settle

ONE, TWO = 1 << SEQUENCE_BITS, 2 << SEQUENCE_BITS


def test_a_directory_in_use_is_refused_until_it_is_free(tmp_path):
    store, _ = open_store(tmp_path)
    with pytest.raises(ConfigError, match="in use by another broker"):
        open_store(tmp_path)
    store.close()
    open_store(tmp_path)[0].close()


def test_a_directory_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="BROKER_DATA"):
        open_store(tmp_path / "file" / "data")


def closed_database(directory: Path) -> Path:
    store, loop = open_store(directory)
    store.load()
    rows = [(ONE + number, b"x" * 5000) for number in range(1, 51)]
    store.push(Push(rows, [], lambda: None, lambda _: None))
    settle(store, loop)
    store.close()
    return directory / DATABASE


def a_foreign_file(path: Path) -> str:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE theirs (a)")
    return "some other program"


def a_foreign_file_that_shrinks(path: Path) -> str:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA auto_vacuum = FULL")
        database.execute("CREATE TABLE theirs (a)")
    return "some other program"


def a_file_of_a_later_release(path: Path) -> str:
    closed_database(path.parent)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"PRAGMA user_version = {VERSION + 1}")
    return f"later release .version {VERSION + 1}."


def a_text_file(path: Path) -> str:
    path.write_bytes(b"no database, " * 1000)
    return "damaged"


def a_garbled_file(path: Path) -> str:
    content = bytearray(closed_database(path.parent).read_bytes())
    content[100:8000] = b"\xff" * 7900
    path.write_bytes(content)
    return "damaged"


@pytest.mark.parametrize(
    "make",
    [
        a_foreign_file,
        a_foreign_file_that_shrinks,
        a_file_of_a_later_release,
        a_text_file,
        a_garbled_file,
    ],
)
def test_a_file_that_cannot_be_used_is_refused_and_stays_as_it_is(tmp_path, make):
    path = tmp_path / DATABASE
    reason = make(path)
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(ConfigError, match=reason):
            open_store(tmp_path)
    assert path.read_bytes() == before
    with pytest.raises(ConfigError, match=reason):
        restore(tmp_path / "restored", path)
    assert path.read_bytes() == before


def test_a_truncated_file_that_was_not_closed_is_refused(tmp_path):
    path = closed_database(tmp_path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE counters SET value = 0 WHERE name = 'closed'")
    path.write_bytes(path.read_bytes()[:-16384])
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="damaged"):
        store, _ = open_store(tmp_path)
        try:
            store.load()
        finally:
            store.close()
    assert path.read_bytes() == before


def test_an_empty_file_becomes_a_database_of_the_present_version(tmp_path):
    (tmp_path / DATABASE).touch()
    store, _ = open_store(tmp_path)
    assert store.load().queues == []
    read = store._writer.execute
    assert read("PRAGMA user_version").fetchone() == (VERSION,)
    assert read("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    assert read("PRAGMA auto_vacuum").fetchone() == (2,)
    assert read("PRAGMA page_size").fetchone() == (PAGE_BYTES,)
    assert read("PRAGMA journal_mode").fetchone() == ("wal",)
    store.close()


def test_an_older_database_is_brought_up_to_date_with_its_jobs(tmp_path, monkeypatch):
    closed_database(tmp_path)
    steps = (*schema.MIGRATIONS, "CREATE TABLE later (a); INSERT INTO later VALUES (7)")
    monkeypatch.setattr(schema, "MIGRATIONS", steps)
    monkeypatch.setattr(schema, "VERSION", len(steps))
    for _ in range(2):
        store, _ = open_store(tmp_path)
        store.load()
        assert store._writer.execute("SELECT a FROM later").fetchall() == [(7,)]
        assert store._writer.execute("PRAGMA user_version").fetchone() == (len(steps),)
        assert len(store.reader.read_jobs(ONE, TWO, 99)) == 50
        store.close()


def test_a_step_that_fails_leaves_the_database_as_it_was(tmp_path, monkeypatch):
    path = closed_database(tmp_path)
    before = path.read_bytes()
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, "DROP TABLE jobs; NONSENSE"))
    monkeypatch.setattr(schema, "VERSION", len(schema.MIGRATIONS))
    with pytest.raises(ConfigError, match="NONSENSE"):
        open_store(tmp_path)
    assert path.read_bytes() == before
