"""Where the store keeps its bytes: a full disk, a drained queue, and copies."""

from types import SimpleNamespace

import pytest

from manyhands.broker import directory
from manyhands.broker import store as store_module
from manyhands.broker.batches import Push
from manyhands.broker.directory import DATABASE, backup, restore
from manyhands.broker.schema import PAGE_BYTES, SEQUENCE_BITS
from manyhands.broker.store import BALLAST, BALLAST_BYTES, Store
from manyhands.shared.errors import ConfigError
from tests.unit.broker.stores import HandLoop, open_store, settle

ONE = 1 << SEQUENCE_BITS


@pytest.fixture
def opened(tmp_path):
    """A store with an empty queue, and its loop."""
    store, loop = open_store(tmp_path)
    store.load()
    store.batch.queues.append((1, "one", False))
    settle(store, loop)
    yield store, loop
    store.close()


def push(store: Store, loop: HandLoop, first: int, count: int, size: int = 4000) -> list[str]:
    said: list[str] = []
    rows = [(ONE + number, b"x" * size) for number in range(first, first + count)]
    store.push(Push(rows, [], lambda: said.append("stored"), said.append))
    settle(store, loop)
    return said


def remove(store: Store, loop: HandLoop, first: int, count: int) -> None:
    store.batch.settled.extend(range(ONE + first, ONE + first + count))
    settle(store, loop)


def pages(store: Store) -> int:
    return int(store._writer.execute("PRAGMA page_count").fetchone()[0])


def fill_the_disk(store: Store) -> None:
    store._writer.execute(f"PRAGMA max_page_count = {pages(store)}")


def make_room(store: Store) -> None:
    store._writer.execute("PRAGMA max_page_count = 1000000")


def test_a_full_disk_refuses_pushes_and_takes_results(opened, tmp_path):
    store, loop = opened
    assert push(store, loop, 1, 50) == ["stored"]
    fill_the_disk(store)
    assert push(store, loop, 51, 50) == ["the disk is full"]
    assert store.is_disk_full
    assert not (tmp_path / BALLAST).exists()
    remove(store, loop, 1, 10)
    assert [key - ONE for key, _ in store.reader.read_jobs(ONE, ONE + 999, 999)] == list(
        range(11, 51)
    )
    assert store._writer.execute("SELECT rows FROM queues").fetchone() == (40,)


def test_results_that_came_with_a_refused_push_are_stored(opened):
    store, loop = opened
    push(store, loop, 1, 50)
    fill_the_disk(store)
    said: list[str] = []
    store.batch.settled.append(ONE + 1)
    store.batch.when_stored.append(lambda: said.append("acknowledged"))
    said += push(store, loop, 51, 50)
    assert said == ["acknowledged", "the disk is full"]
    assert store.reader.read_jobs(ONE, ONE + 1, 9) == []


def test_when_there_is_room_again_pushes_are_taken_again(opened, tmp_path):
    store, loop = opened
    fill_the_disk(store)
    push(store, loop, 1, 50)
    make_room(store)
    store.look_after_space()
    assert not store.is_disk_full
    assert (tmp_path / BALLAST).stat().st_size == BALLAST_BYTES
    assert push(store, loop, 51, 50) == ["stored"]
    assert store._writer.execute("SELECT rows FROM queues").fetchone() == (50,)


def test_a_result_waits_for_room_and_is_stored_then(opened, monkeypatch):
    store, loop = opened
    clock = SimpleNamespace(sleep=lambda _: make_room(store))
    monkeypatch.setattr(store_module, "time", clock)
    fill_the_disk(store)
    said: list[str] = []
    store.batch.rows.extend((ONE + number, b"x" * 4000) for number in range(1, 51))
    store.batch.when_stored.append(lambda: said.append("requeued"))
    settle(store, loop)
    assert said == ["requeued"]
    assert len(store.reader.read_jobs(ONE, ONE + 999, 999)) == 50


def test_a_store_on_a_full_disk_can_be_closed_and_does_not_pass_for_closed(tmp_path, monkeypatch):
    store, loop = open_store(tmp_path)
    store.load()
    store.on_broken = lambda _: None
    monkeypatch.setattr(store_module, "RETRY_WRITE_S", 0.001)
    fill_the_disk(store)
    store.batch.rows.extend((ONE + number, b"x" * 4000) for number in range(1, 51))
    loop.run_soon()
    store.close()
    again, _ = open_store(tmp_path)
    assert not again.load().was_closed
    again.close()


def test_a_drained_queue_gives_its_space_back(opened, tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "FREE_PAGES_KEPT", 16)
    monkeypatch.setattr(store_module, "VACUUM_PAGES", 64)
    store, loop = opened
    push(store, loop, 1, 1000)
    store._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    largest = (tmp_path / DATABASE).stat().st_size
    remove(store, loop, 1, 999)
    for _ in range(20):
        store.look_after_space()
        settle(store, loop)
    push(store, loop, 1001, 1)  # after the last of what the writer does on its own
    store._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert largest > 400 * PAGE_BYTES
    assert (tmp_path / DATABASE).stat().st_size < 64 * PAGE_BYTES
    assert [key for key, _ in store.reader.read_jobs(ONE, ONE + 9999, 9)] == [
        ONE + 1000,
        ONE + 1001,
    ]


def test_a_few_free_pages_are_kept(opened):
    store, loop = opened
    push(store, loop, 1, 100)
    remove(store, loop, 1, 100)
    before = pages(store)
    store.look_after_space()
    settle(store, loop)
    assert pages(store) == before


def test_the_log_of_a_busy_store_stays_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(directory, "CHECKPOINT_PAGES", 32)
    store, loop = open_store(tmp_path)
    store.load()
    for number in range(100):
        push(store, loop, 1 + number * 10, 10)
        remove(store, loop, 1 + number * 10, 10)
    assert (tmp_path / f"{DATABASE}-wal").stat().st_size < 3 * 32 * PAGE_BYTES
    store.close()


# Copies


def test_a_backup_of_an_open_store_can_be_restored(opened, tmp_path):
    store, loop = opened
    push(store, loop, 1, 50)
    backup(tmp_path, tmp_path / "copy.db")
    remove(store, loop, 1, 50)
    restore(tmp_path / "restored", tmp_path / "copy.db")
    again, _ = open_store(tmp_path / "restored")
    snapshot = again.load()
    assert [queue[1::2] for queue in snapshot.queues] == [("one", 50)]
    assert not snapshot.was_closed
    assert len(again.reader.read_jobs(ONE, ONE + 999, 999)) == 50
    assert again._writer.execute("PRAGMA auto_vacuum").fetchone() == (2,)
    again.close()


def test_neither_copy_overwrites_anything(opened, tmp_path):
    target = tmp_path / "copy.db"
    backup(tmp_path, target)
    with pytest.raises(ConfigError, match="exists already"):
        backup(tmp_path, target)
    restore(tmp_path / "restored", target)
    with pytest.raises(ConfigError, match="exists already"):
        restore(tmp_path / "restored", target)
    with pytest.raises(ConfigError, match="in use"):
        restore(tmp_path, target)


def test_what_is_not_there_cannot_be_copied(tmp_path):
    with pytest.raises(ConfigError, match="does not exist"):
        backup(tmp_path, tmp_path / "copy.db")
    with pytest.raises(ConfigError, match="does not exist"):
        restore(tmp_path / "restored", tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()


def test_an_empty_file_is_no_backup(tmp_path):
    (tmp_path / "empty.db").touch()
    with pytest.raises(ConfigError, match="cannot be used"):
        restore(tmp_path / "restored", tmp_path / "empty.db")
    assert (tmp_path / "empty.db").read_bytes() == b""
