"""The files of the state: what is refused, and in which words."""

import contextlib
import sqlite3
import threading
from pathlib import Path

import pytest

from manyhands.shared.crawl.store.clock import Moment
from manyhands.shared.crawl.store.errors import StateBusy, StateDamaged, StateError
from manyhands.shared.crawl.store.model import Layout, LeaseLost, Member
from manyhands.shared.crawl.store.sqlite import database as database_module
from manyhands.shared.crawl.store.sqlite.control import SqliteControl
from manyhands.shared.crawl.store.sqlite.damage import damaged_shards, is_damaged
from manyhands.shared.crawl.store.sqlite.database import PAGE_BYTES, open_file, open_for_reading
from manyhands.shared.crawl.store.sqlite.directory import (
    open_control,
    open_reader,
    open_shard,
    shard_file,
)
from manyhands.shared.crawl.store.sqlite.readers import FileReaders
from manyhands.shared.crawl.store.sqlite.schema import CONTROL, SHARD, Schema

NOW = 1_700_000_000.0
LONG_S = 60.0


def open_and_close(directory: Path, epoch: int = 1) -> Path:
    open_shard(directory, 1, 3, epoch, NOW).close()
    return shard_file(directory, 1, 3)


def test_every_shard_has_a_file_of_its_own(tmp_path):
    open_and_close(tmp_path / "new" / "state")
    assert (tmp_path / "new" / "state" / "gen-1" / "shard-03.db").is_file()


def test_a_directory_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="state cannot be made: Not a directory"):
        open_control(tmp_path / "file" / "state")


def test_a_file_that_cannot_be_opened_is_said(tmp_path):
    (tmp_path / "control.db").mkdir()
    with pytest.raises(StateError, match=r"control\.db cannot be used"):
        open_control(tmp_path)


@pytest.mark.parametrize("opens", [open_and_close, lambda path: open_reader(path, 1, 3)])
def test_a_file_that_is_no_database_is_said_and_left_as_it_is(tmp_path, opens):
    path = open_and_close(tmp_path)
    path.write_bytes(b"not a database at all" * 500)
    before = path.read_bytes()
    with pytest.raises(StateError, match=r"shard-03\.db is damaged"):
        opens(tmp_path)
    assert path.read_bytes() == before


def test_damage_that_is_found_later_is_said_too(tmp_path):
    with contextlib.closing(open_shard(tmp_path, 1, 3, 1, NOW)) as store, store.transaction():
        store.count(1, {"links": 1})
    path = shard_file(tmp_path, 1, 3)
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    with pytest.raises(StateError, match="damaged"):
        open_and_close(tmp_path, epoch=2)


def test_a_file_of_a_later_release_is_said_and_left_as_it_is(tmp_path):
    path = open_and_close(tmp_path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {SHARD.version + 1}")
    with pytest.raises(StateError, match=rf"later release \(version {SHARD.version + 1}"):
        open_and_close(tmp_path)
    with pytest.raises(StateError, match="later release"):
        open_reader(tmp_path, 1, 3)


def test_a_file_of_another_program_is_said(tmp_path):
    path = open_and_close(tmp_path)
    with pytest.raises(StateError, match="some other program"):
        open_file(path, CONTROL)


def test_an_older_file_becomes_a_present_one_and_keeps_its_content(tmp_path):
    path = open_and_close(tmp_path, epoch=5)
    later = Schema(SHARD.application_id, (*SHARD.migrations, ("CREATE TABLE more (a INTEGER)",)))
    with contextlib.closing(open_file(path, later)) as database:
        assert database.value("PRAGMA user_version") == later.version
        assert database.rows("SELECT * FROM more") == []
        assert database.value("SELECT value FROM facts WHERE name = 'epoch'") == 5


def test_a_migration_that_fails_changes_nothing(tmp_path):
    path = open_and_close(tmp_path)
    broken = Schema(
        SHARD.application_id, (*SHARD.migrations, ("CREATE TABLE more (a)", "CREATE nonsense"))
    )
    with pytest.raises(sqlite3.OperationalError):
        open_file(path, broken)
    with contextlib.closing(open_file(path, SHARD)) as database:
        assert database.value("SELECT count(*) FROM sqlite_schema WHERE name = 'more'") == 0


def test_a_file_with_nothing_in_it_yet_has_no_reader(tmp_path):
    path = tmp_path / "empty.db"
    path.touch()
    assert open_for_reading(path, SHARD) is None


def test_a_reader_cannot_write(tmp_path):
    open_and_close(tmp_path)
    database = open_for_reading(shard_file(tmp_path, 1, 3), SHARD)
    assert database is not None
    with contextlib.closing(database), pytest.raises(StateError, match="readonly"):
        database.run("DELETE FROM counters")


def test_a_file_that_another_holds_for_too_long_is_busy(tmp_path, monkeypatch):
    monkeypatch.setattr(database_module, "BUSY_S", 0.01)
    with contextlib.closing(open_shard(tmp_path, 1, 3, 1, NOW)) as holder:
        with holder.transaction(), pytest.raises(StateBusy, match="another process"):
            open_and_close(tmp_path, epoch=2)
        # It was not stopped by the attempt, only by the next one that succeeds.
        with holder.transaction():
            holder.count(1, {"links": 1})
        open_and_close(tmp_path, epoch=2)
        with pytest.raises(LeaseLost), holder.transaction():
            pass


def test_many_can_make_the_same_file_at_once(tmp_path):
    ready = threading.Barrier(8)
    layouts = []

    def start() -> None:
        ready.wait()
        with contextlib.closing(open_control(tmp_path)) as control:
            layouts.append(control.layout(4))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(layouts) == 8
    assert len(set(map(str, layouts))) == 1


def test_leases_of_another_boot_have_ended(tmp_path):
    moments = [Moment("before", 1000.0)]
    database = open_file(tmp_path / "control.db", CONTROL)
    with contextlib.closing(SqliteControl(database, clock=lambda: moments[-1])) as control:
        control.layout(4)
        control.join(Member("a", 1), LONG_S)
        assert control.claim_lease(0, "a", LONG_S) == 1
        assert control.lead("a", LONG_S)
        # The clock begins anew, so the old times seem to be far ahead.
        moments.append(Moment("after", 5.0))
        assert control.members() == []
        assert [lease.is_live for lease in control.leases()] == [False]
        assert control.renew_leases("a", {0: 1}, LONG_S) == set()
        assert control.claim_lease(0, "b", LONG_S) == 2
        assert control.lead("b", LONG_S)


def test_a_lease_ends_by_the_clock_of_the_store(tmp_path):
    moments = [Moment("boot", 1000.0)]
    database = open_file(tmp_path / "control.db", CONTROL)
    with contextlib.closing(SqliteControl(database, clock=lambda: moments[-1])) as control:
        control.layout(4)
        control.claim_lease(0, "a", 5.0)
        moments.append(Moment("boot", 1004.9))
        assert control.renew_leases("a", {0: 1}, 5.0) == {0}
        moments.append(Moment("boot", 1009.8))
        assert control.claim_lease(0, "b", 5.0) is None
        moments.append(Moment("boot", 1009.9))
        assert control.claim_lease(0, "b", 5.0) == 2
        assert control.renew_leases("a", {0: 1}, 5.0) == set()


def test_two_directories_have_different_tags(tmp_path):
    tags = set()
    for name in ("one", "other"):
        with contextlib.closing(open_control(tmp_path / name)) as control:
            tags.add(control.tag())
    assert len(tags) == 2


def test_a_directory_from_before_there_were_tags_gets_one(tmp_path):
    open_file(
        tmp_path / "control.db", Schema(CONTROL.application_id, CONTROL.migrations[:1])
    ).close()
    with contextlib.closing(open_control(tmp_path)) as control:
        assert control.tag()


def test_a_damaged_shard_has_a_note_until_another_file_is_in_its_place(tmp_path):
    path = open_and_close(tmp_path)
    good = path.read_bytes()
    assert damaged_shards(tmp_path) == []
    path.write_bytes(good[:PAGE_BYTES] + bytes(len(good) - PAGE_BYTES))
    with pytest.raises(StateDamaged, match=r"shard-03\.db is damaged"):
        open_and_close(tmp_path)
    assert is_damaged(path)
    (sentence,) = damaged_shards(tmp_path)
    assert sentence.startswith("gen-1/shard-03.db: ")
    assert "put a good copy in its place" in sentence
    path.unlink()
    path.write_bytes(good)
    assert not is_damaged(path)
    open_and_close(tmp_path)
    assert damaged_shards(tmp_path) == []


def test_readers_see_the_file_that_is_in_the_place_now(tmp_path):
    path = open_and_close(tmp_path)
    good = path.read_bytes()
    readers = FileReaders(tmp_path)
    first = readers.get(1, 3)
    assert first is not None
    assert readers.get(1, 3) is first
    path.unlink()
    assert readers.get(1, 3) is None
    path.write_bytes(good)
    second = readers.get(1, 3)
    assert second is not None
    assert second.received_from(1) == 0
    readers.close()


def test_readers_of_a_generation_are_closed_when_the_next_one_is_read(tmp_path):
    open_and_close(tmp_path)
    readers = FileReaders(tmp_path)
    first = readers.get(1, 3)
    assert first is not None
    assert readers.get(2, 3) is None
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        first.received_from(1)
    readers.close()


def test_each_reader_is_of_a_shard_that_has_had_an_owner(tmp_path):
    open_and_close(tmp_path)
    readers = FileReaders(tmp_path)
    layout = Layout(generation=1, shards=5, wanted=5, most_ever=5)
    assert [shard for shard, _ in readers.each(layout)] == [3]
    assert [shard for shard, _ in readers.each(layout, first=4)] == []
    readers.close()


def test_readers_are_opened_anew_after_an_error(tmp_path):
    open_and_close(tmp_path)
    readers = FileReaders(tmp_path)
    first = readers.get(1, 3)
    with pytest.raises(StateError), readers.reopened_after_errors():
        raise StateError("the disk is gone")
    second = readers.get(1, 3)
    assert second is not None and second is not first
    readers.close()
