"""What is read of a damaged database, and what is said of it; the tables of the sets above all."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from manyhands.broker.batches import Push, SetRow
from manyhands.broker.checking import check_all
from manyhands.broker.choices import EVERY_JOB
from manyhands.broker.directory import DATABASE
from manyhands.broker.progress import Progress
from manyhands.broker.recovery import recover
from manyhands.broker.schema import PAGE_BYTES, SEQUENCE_BITS
from manyhands.broker.store import Store
from manyhands.broker.tally import TALLY_FILE, Tally, TallyFile, read_tally, what_is_lost
from tests.support.broken_files import overwrite
from tests.unit.broker.stores import open_store, settle

ONE = 1 << SEQUENCE_BITS
ROWS = 400


def payload(number: int) -> bytes:
    return b'{"jid":"job-%08d","jobtype":"t","args":["%b"],"queue":"one"}' % (number, b"x" * 300)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Closed, with as many jobs in a queue as in the scheduled set."""
    store, loop = open_store(tmp_path)
    store.load()
    store.batch.queues.append((1, "one", False))
    rows = [(ONE + number, payload(number)) for number in range(1, ROWS + 1)]
    set_rows = [
        SetRow("scheduled", float(ROWS - number), f"job-{number:08}", "t", payload(number))
        for number in range(ROWS)
    ]
    store.push(Push(rows, set_rows, lambda: None, lambda _: None))
    settle(store, loop)
    store.close()
    return tmp_path


def damage(directory: Path, table: str, count: int = 3) -> int:
    """Overwrite some leaves; how many cells were on them."""
    with closing(sqlite3.connect(directory / DATABASE)) as database:
        leaves = database.execute(
            "SELECT pageno, ncell FROM dbstat WHERE name = ? AND pagetype = 'leaf'", (table,)
        ).fetchall()
    chosen = random.Random(1).sample(leaves, count)
    overwrite(directory / DATABASE, [page for page, _ in chosen], 1)
    return sum(cells for _, cells in chosen)


def opened(directory: Path) -> Store:
    store, _ = open_store(directory)
    store.load()
    return store


def test_a_set_is_read_past_damaged_pages_in_its_order(directory):
    destroyed = damage(directory, "sets")
    store = opened(directory)
    found = store.reader.read_set("scheduled", limit=ROWS)
    assert len(found) == ROWS - destroyed
    assert [row.at for row in found] == sorted(row.at for row in found)
    assert store.damage.is_there
    store.close()


def test_a_set_whose_index_is_damaged_is_whole(directory):
    damage(directory, "sets_by_time", 1)
    store = opened(directory)
    assert len(store.reader.read_set("scheduled", limit=ROWS)) == ROWS
    # It takes long: not again at once.
    assert store.reader.read_set("scheduled", limit=ROWS) == []
    assert store.damage.is_there
    store.close()


def test_a_walk_through_a_set_goes_past_damaged_pages(directory):
    destroyed = damage(directory, "sets")
    store = opened(directory)
    found, after = 0, 0
    while rows := store.reader.find(
        "scheduled", EVERY_JOB, after=after, limit=10, max_bytes=10**6
    ).rows:
        found, after = found + len(rows), rows[-1].id
    assert found == ROWS - destroyed
    store.close()


def test_a_check_names_what_is_wrong_and_only_that(directory):
    assert check_all(directory, Progress()) == []
    destroyed = damage(directory, "sets")
    problems = check_all(directory, Progress())
    assert (
        f"{directory / DATABASE}: set scheduled: {ROWS - destroyed} jobs can be read of {ROWS}"
        in (problems)
    )
    assert not any("queue one" in problem for problem in problems)


def test_what_was_recovered_is_sound_and_says_what_is_missing(directory, tmp_path):
    destroyed = damage(directory, "sets") + damage(directory, "jobs")
    said = recover(directory, tmp_path / "new", Progress())
    assert f"{destroyed} jobs of {2 * ROWS} could not be read" in said
    assert check_all(tmp_path / "new", Progress()) == []


def test_a_job_that_is_done_beside_a_damaged_page_stays_done(directory):
    destroyed = damage(directory, "jobs")
    store, loop = open_store(directory)
    store.load()
    found = [key for key, _ in store.reader.read_jobs(ONE, ONE + ROWS, ROWS)]
    assert len(found) == ROWS - destroyed
    for key in found:
        store.batch.settled.append(key)
        settle(store, loop)
    store.close()
    again, _ = open_store(directory)
    snapshot = again.load()
    left = [key for key, _ in again.reader.read_jobs(ONE, ONE + ROWS, ROWS)]
    assert set(left) <= set(snapshot.gone)
    assert [queue[3] for queue in snapshot.queues] == [destroyed]
    again.close()


def test_one_flipped_bit_of_a_job_is_found(directory):
    content = bytearray((directory / DATABASE).read_bytes())
    place = content.index(b'{"jid":"job-00000007"')
    content[place + 60] ^= 1
    (directory / DATABASE).write_bytes(content)
    store = opened(directory)
    page = store.reader.read_jobs(ONE, ONE + ROWS, ROWS)
    rows = store.reader.read_set("scheduled", limit=ROWS)
    assert len(page) + len(rows) == 2 * ROWS - 1
    assert store.damage.unreadable_jobs == 1
    store.close()


def test_the_tally_is_read_as_it_was_written_and_garbage_is_none(tmp_path):
    assert read_tally(tmp_path) is None
    file = TallyFile(tmp_path)
    file.write(Tally(3, 20, 10))
    assert read_tally(tmp_path) == (3, 20, 10)
    file.close()
    (tmp_path / TALLY_FILE).write_bytes(b"x" * PAGE_BYTES)
    assert read_tally(tmp_path) is None


def test_what_is_lost_is_said_in_numbers():
    assert what_is_lost(None, Tally(5)) is None
    assert what_is_lost(Tally(5, 1, 1), Tally(5, 1, 1)) is None
    # After a loss of power the file may be behind.
    assert what_is_lost(Tally(4, 1, 1), Tally(5, 2, 1)) is None
    lost = what_is_lost(Tally(9, 100, 50), Tally(5, 80, 49)) or ""
    assert "ends at commit 5, but 9 were answered" in lost
    assert "Up to 20 stored jobs are missing, and up to 1 that were done will run again" in lost
