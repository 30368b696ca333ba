"""What is asked of the store, what it commits, and what is there after a restart."""

import asyncio
import shutil
import sqlite3
from pathlib import Path

import pytest

from manyhands.broker import batches
from manyhands.broker.batches import Push, SetRow
from manyhands.broker.choices import EVERY_JOB, due_by
from manyhands.broker.directory import DATABASE
from manyhands.broker.memory import Memory
from manyhands.broker.reading import Reservation, Snapshot
from manyhands.broker.schema import SEQUENCE_BITS
from manyhands.broker.store import Store
from tests.unit.broker.stores import HandLoop, open_store, settle

ONE, TWO = 1 << SEQUENCE_BITS, 2 << SEQUENCE_BITS


@pytest.fixture
def opened(tmp_path):
    """A store that was loaded, and its loop."""
    store, loop = open_store(tmp_path)
    store.load()
    yield store, loop
    if store._thread.is_alive():
        store.close()


def push(
    store: Store, rows: list[tuple[int, bytes]], said: list[str], set_rows: tuple[SetRow, ...] = ()
) -> None:
    store.push(Push(rows, list(set_rows), lambda: said.append("stored"), said.append))


def reopened(store: Store, directory: Path) -> tuple[Store, HandLoop, Snapshot]:
    store.close()
    again, loop = open_store(directory)
    return again, loop, again.load()


def a_set_row(kind: str, at: float = 5.0, jid: str = "jid-of-it") -> SetRow:
    return SetRow(kind, at, jid, "greet", '{"jid":"ü\\u0000\\\\"}'.encode())


def test_all_that_was_committed_is_there_after_a_restart(opened, tmp_path):
    store, loop = opened
    said: list[str] = []
    store.batch.queues.extend([(1, "one", False), (2, "two", True)])
    push(store, [(ONE + 1, b"a"), (ONE + 2, b""), (TWO + 1, "ü€".encode())], said)
    push(store, [], said, (a_set_row("scheduled"),))
    store.batch.set_rows.extend([a_set_row("dead", 9.5), a_set_row("retries", 7.25)])
    store.batch.reservations.extend(
        [(ONE + 1, True, "us", "w1", 1.5, 61.5, 0), (TWO + 1, False, None, "", 2.5, 62.5, 2)]
    )
    store.batch.count("processed", 4)
    settle(store, loop)
    store.batch.count("processed", -1)
    settle(store, loop)
    again, _, snapshot = reopened(store, tmp_path)
    assert said == ["stored", "stored"]
    assert snapshot.was_closed
    assert snapshot.queues == [(1, "one", False, 2, ONE + 2), (2, "two", True, 1, TWO + 1)]
    assert snapshot.tally == (2, 4, 0)
    assert snapshot.reservations == [
        Reservation(ONE + 1, True, "us", "w1", 1.5, 61.5, 0, b"a"),
        Reservation(TWO + 1, False, None, "", 2.5, 62.5, 2, "ü€".encode()),
    ]
    assert snapshot.counters == {"processed": 3, "scheduled": 1}
    assert again.reader.read_jobs(ONE, ONE + 9, 50) == [(ONE + 1, b"a"), (ONE + 2, b"")]
    assert again.reader.read_jobs(ONE, ONE + 9, 1) == [(ONE + 1, b"a")]
    assert again.reader.read_jobs(ONE + 2, ONE + 9, 1) == []
    for kind, at in (("scheduled", 5.0), ("dead", 9.5), ("retries", 7.25)):
        (row,) = again.reader.read_set(kind, limit=9)
        assert (row.at, row.jid, row.jobtype) == (at, "jid-of-it", "greet")
        assert row.payload == a_set_row(kind).payload
    assert list(again.reader.newest_in_sets(9)) == ["jid-of-it"] * 2
    again.close()


def test_what_was_settled_is_gone_and_the_queues_know_how_many_are_left(opened, tmp_path):
    store, loop = opened
    store.batch.queues.extend([(1, "one", False), (2, "two", False)])
    keys = [*range(ONE + 1, ONE + 6), *range(TWO + 1, TWO + 4)]
    push(store, [(key, b"x") for key in keys], [])
    store.batch.set_rows.extend([a_set_row("dead", jid="first"), a_set_row("dead", jid="second")])
    store.batch.reservations.append((ONE + 3, True, None, "", 0.0, 0.0, 0))
    settle(store, loop)
    store.batch.settled.extend([ONE + 1, ONE + 3, TWO + 2])
    store.batch.unreserved.append(ONE + 3)
    store.batch.removed_set_ids.append(store.reader.read_set("dead", limit=1)[0].id)
    settle(store, loop)
    again, _, snapshot = reopened(store, tmp_path)
    assert [queue[1::2] for queue in snapshot.queues] == [("one", 3), ("two", 2)]
    assert snapshot.reservations == []
    assert [key for key, _ in again.reader.read_jobs(ONE, TWO, 9)] == [ONE + 2, ONE + 4, ONE + 5]
    assert [row.jid for row in again.reader.read_set("dead", limit=9)] == ["second"]
    again.close()


def test_many_pushes_are_one_transaction(opened):
    store, loop = opened
    said: list[str] = []
    store.batch.queues.append((1, "one", False))
    for number in range(100):
        push(store, [(ONE + 1 + number, b"x")], said)
    before = store.commits
    settle(store, loop)
    assert said == ["stored"] * 100
    assert store.commits == before + 1


def test_what_comes_while_a_batch_is_written_goes_into_the_next(opened):
    store, loop = opened
    said: list[str] = []
    store.batch.when_stored.append(lambda: said.append("first"))
    loop.run_soon()
    for number in range(50):
        push(store, [(ONE + 1 + number, b"x")], said)
    before = store.commits
    settle(store, loop)
    assert said == ["first"] + ["stored"] * 50
    assert store.commits == before + 2


def test_statements_that_run_alone_keep_their_place(opened):
    store, loop = opened
    store.batch.queues.append((1, "one", False))
    push(store, [(ONE + 1, b"before")], [])
    store.run_alone(("DELETE FROM jobs", ()), ("UPDATE queues SET rows = 0", ()))
    push(store, [(ONE + 2, b"after")], [])
    settle(store, loop)
    assert store.reader.read_jobs(ONE, TWO, 9) == [(ONE + 2, b"after")]
    assert store._writer.execute("SELECT rows FROM queues").fetchall() == [(1,)]


def test_statements_run_alone_when_nothing_else_is_asked_for(opened):
    store, loop = opened
    said: list[str] = []
    store.run_alone(("SELECT 1", ()))
    store.batch.when_stored.append(lambda: said.append("after"))
    settle(store, loop)
    assert said == ["after"]


def test_what_is_deleted_over_and_over_is_one_transaction(opened):
    store, loop = opened
    said: list[str] = []
    before = store.commits
    for _ in range(100):
        store.wipe(("DELETE FROM jobs", ()))
        store.batch.when_stored.append(lambda: said.append("deleted"))
    settle(store, loop)
    assert said == ["deleted"] * 100
    assert store.commits == before + 1


def test_what_was_pushed_between_two_deletions_is_deleted(opened):
    store, loop = opened
    store.batch.queues.append((1, "one", False))
    for number in range(3):
        store.wipe(("DELETE FROM jobs", ()))
        push(store, [(ONE + 1 + number, b"x")], [])
    settle(store, loop)
    assert store.reader.read_jobs(ONE, TWO, 9) == [(ONE + 3, b"x")]


def test_what_is_written_is_seen_in_the_order_in_which_it_was_asked_for(opened):
    store, loop = opened
    said: list[str] = []
    store.batch.when_stored.append(lambda: said.append("requeued"))
    push(store, [(ONE + 1, b"x")], said)
    store.batch.when_stored.append(lambda: said.append("acknowledged"))
    settle(store, loop)
    assert said == ["requeued", "stored", "acknowledged"]


def test_more_than_sqlite_takes_as_one_value_is_written_and_read_in_parts(opened, monkeypatch):
    store, loop = opened
    monkeypatch.setattr(batches, "STATEMENT_BYTES", 20_000)
    for connection in (store._writer, store.reader._connection):
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 50_000)
    store.batch.queues.append((1, "one", False))
    rows = [(ONE + 1 + number, b"%05d" % number * 800) for number in range(30)]
    push(store, rows, [])
    store.batch.set_rows.extend(
        SetRow("dead", 1.0, str(number), "t", b"x" * 4000) for number in range(30)
    )
    settle(store, loop)
    read: list[tuple[int, bytes]] = []
    while page := store.reader.read_jobs(read[-1][0] if read else ONE, TWO - 1, 30, 20_000):
        read.extend(page)
    assert read == rows
    assert [row.jid for row in store.reader.read_set("dead", limit=99)] == [
        str(n) for n in range(30)
    ]


def test_a_set_is_walked_through_by_time_or_by_id(opened):
    store, loop = opened
    for jid, at in (("a", 3.0), ("b", 1.0), ("c", 2.0), ("d", 1.0)):
        store.batch.set_rows.append(a_set_row("scheduled", at, jid))
    settle(store, loop)
    by_time = [row.jid for row in store.reader.read_set("scheduled", limit=9)]
    first = store.reader.find("scheduled", EVERY_JOB, after=0, limit=3, max_bytes=999).rows
    rest = store.reader.find(
        "scheduled", EVERY_JOB, after=first[-1].id, limit=3, max_bytes=999
    ).rows
    assert by_time == ["b", "d", "c", "a"]
    assert [[row.jid for row in rows] for rows in (first, rest)] == [["a", "b", "c"], ["d"]]
    assert store.reader.last_set_id() == rest[-1].id
    assert [r.jid for r in store.reader.read_set("scheduled", due_by(1.5), limit=1)] == ["b"]


async def test_a_real_loop_is_told_of_each_commit(tmp_path):
    store = Store(
        tmp_path, is_full_sync=True, loop=asyncio.get_running_loop(), memory=Memory(10**8)
    )
    store.load()
    for number in range(5):
        stored = asyncio.Event()
        store.batch.count("processed", 1)
        store.batch.when_stored.append(stored.set)
        await stored.wait()
        assert store.commits == number + 1
    store.close()


def test_a_store_that_cannot_write_says_so_and_does_not_pass_for_closed(opened, tmp_path):
    store, loop = opened
    broken: list[Exception] = []
    store.on_broken = broken.append
    store.run_alone(("NONSENSE", ()))
    loop.run_soon()
    loop.run_one_from_thread()
    assert "NONSENSE" in str(broken[0])
    _, _, snapshot = (again := reopened(store, tmp_path))
    assert not snapshot.was_closed
    again[0].close()


def test_a_store_that_was_not_closed_is_known_by_it(opened, tmp_path):
    store, loop = opened
    push(store, [(ONE + 1, b"x")], [])
    settle(store, loop)
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in (DATABASE, f"{DATABASE}-wal"):
        shutil.copy(tmp_path / name, copy / name)
    again, _ = open_store(copy)
    assert not again.load().was_closed
    assert again.reader.read_jobs(ONE, TWO, 9) == [(ONE + 1, b"x")]
    again.close()
