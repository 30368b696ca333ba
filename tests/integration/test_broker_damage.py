"""A broker whose files were damaged while it was down. A ledger of what was answered: all of it
comes back but what was destroyed, and that is counted and named."""

import contextlib
import json
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from devservers import BrokerServer
from devservers.processes import StartError
from manyhands.broker.checksums import of_job
from manyhands.broker.directory import DATABASE
from manyhands.broker.schema import PAGE_BYTES, SEQUENCE_BITS
from manyhands.shared.jobs import new_jid
from tests.acceptance.scale import IS_PROOF
from tests.support.broken_files import Content, content_of, flip, overwrite
from tests.support.broker_command import refusal, run_broker
from tests.support.raw_client import RawClient

JOBS = 20_000 if IS_PROOF else 3_000
# Each of this many jobs is so long that it fills pages of its own.
LONG_EVERY, LONG_BYTES = 50, 20_000
SEEDS = range(20) if IS_PROOF else range(1, 2)
QUEUE = "ledger"

Chooser = Callable[[Content, random.Random], list[int]]


def push(raw: RawClient, count: int, **fields: Any) -> list[str]:
    jids = [new_jid() for _ in range(count)]
    for first in range(0, count, 500):
        jobs = [
            {
                "jid": jid,
                "jobtype": "any",
                "args": ["x" * (LONG_BYTES if number % LONG_EVERY == 0 else 150)],
                "queue": QUEUE,
                **fields,
            }
            for number, jid in enumerate(jids[first : first + 500])
        ]
        assert raw.call("PUSHB " + json.dumps(jobs)) == "{}"
    return jids


def drain(raw: RawClient) -> list[str]:
    """Those that are handed out, all of them acknowledged; each ACK is answered."""
    done: list[str] = []
    while size := raw.info()["faktory"]["queues"].get(QUEUE, 0):
        asked = min(size, 200)
        raw.send(*[f"FETCH {QUEUE}"] * asked)
        found = [json.loads(answer)["jid"] for _ in range(asked) if (answer := raw.answer())]
        raw.send(*["ACK " + json.dumps({"jid": jid}) for jid in found])
        assert all(raw.answer() == "OK" for _ in found)
        done += found
    return done


def log_of(server: BrokerServer) -> str:
    return (server.data_dir / "broker.log").read_text()


def health(server: BrokerServer) -> httpx.Response:
    return httpx.get(f"{server.web_url}/health", trust_env=False, timeout=20)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The data of a broker that was stopped with jobs in it, some of them gone again."""
    directory = tmp_path_factory.mktemp("filled")
    with BrokerServer(data_dir=directory) as server, RawClient(server.url) as raw:
        push(raw, JOBS // 10)
        drain(raw)
        jids = push(raw, JOBS)
    return directory / "db", jids


@pytest.fixture
def place(filled: tuple[Path, list[str]], tmp_path: Path) -> Iterator[Path]:
    shutil.copytree(filled[0], tmp_path / "db")
    yield tmp_path
    shutil.rmtree(tmp_path / "db")


def some_leaves(content: Content, chance: random.Random) -> list[int]:
    return chance.sample(sorted(content.leaves), 5)


def some_overflow_pages(content: Content, chance: random.Random) -> list[int]:
    return chance.sample(content.overflow, 3)


@contextlib.contextmanager
def closing_server(server: BrokerServer) -> Iterator[None]:
    """One that was started already."""
    try:
        yield
    finally:
        server.stop()


def jids_hit(content: Content, pages: list[int]) -> set[str]:
    """The jobs that have a part on these pages."""
    return {jid for page in pages for jid in content.jids.get(page, ())}


def assert_recovered(place: Path, pushed: list[str], destroyed: set[str]) -> None:
    """All that was not destroyed comes out of the damaged files, in a database that is sound."""
    result = run_broker(place / "db", "recover", place / "new")
    assert result.returncode == 0, result
    new = content_of(place / "new" / DATABASE)
    found = {jid for jids in new.jids.values() for jid in jids}
    assert found <= set(pushed)
    assert set(pushed) - found <= destroyed
    assert f"{len(found)} queued jobs" in result.stdout
    check = run_broker(place / "new", "check")
    assert (check.returncode, "sound" in check.stdout) == (0, True), check


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("choose", [some_leaves, some_overflow_pages])
def test_jobs_behind_a_damaged_page_are_delivered_and_the_others_are_counted_and_named(
    place: Path, filled: tuple[Path, list[str]], choose: Chooser, seed: int
) -> None:
    path, pushed = place / "db" / DATABASE, filled[1]
    content = content_of(path)
    pages = choose(content, random.Random(seed))
    destroyed = jids_hit(content, pages)
    overwrite(path, pages, seed)
    check = run_broker(place / "db", "check")
    assert (check.returncode, str(path) in check.stdout) == (1, True), check
    shutil.copytree(place / "db", place / "copy" / "db")
    with BrokerServer(data_dir=place) as server, RawClient(server.url) as raw:
        assert health(server).status_code == 503
        done = drain(raw)
        server_info = raw.info()["server"]
        answer = health(server)
        # The end of the queue is sound.
        more = push(raw, 3)
        assert drain(raw) == more
        # What is done is done, though its page could not be touched.
        server.kill()
        server.start()
        with RawClient(server.url) as again:
            assert drain(again) == []
        log = log_of(server)
    missing = set(pushed) - set(done)
    assert done == [jid for jid in pushed if jid not in missing]
    assert missing == destroyed
    assert server_info["unreadable_jobs"] == len(missing)
    assert answer.status_code == 503
    assert f"{len(missing)} jobs that cannot be read" in answer.json()["status"]
    for text in (server_info["damage"], log):
        assert str(path) in text
        assert "broker recover" in text
    assert "table jobs, key" in log
    assert "Traceback" not in log
    assert_recovered(place / "copy", pushed, destroyed)


def test_a_job_whose_key_names_a_wrong_queue_does_not_stop_the_recovery_of_the_others(
    place: Path, filled: tuple[Path, list[str]]
) -> None:
    """A flipped bit in the upper half of a key, which no checksum covers."""
    path, pushed = place / "db" / DATABASE, filled[1]
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        [key, payload] = database.execute("SELECT key, payload FROM jobs LIMIT 1").fetchone()
        number = key >> SEQUENCE_BITS
        wrong = key + (4 << SEQUENCE_BITS)
        assert of_job(key, payload) == of_job(wrong, payload)
        database.execute("UPDATE jobs SET key = ? WHERE key = ?", (wrong, key))
    assert_recovered(place, pushed, {json.loads(payload)["jid"]})
    with contextlib.closing(sqlite3.connect(place / "new" / DATABASE)) as new:
        assert new.execute("SELECT id, rows FROM queues").fetchall() == [(number, len(pushed) - 1)]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", SEEDS)
def test_forty_flipped_bytes_lose_only_what_they_hit_and_no_job_comes_twice(
    place: Path, filled: tuple[Path, list[str]], seed: int
) -> None:
    path, pushed = place / "db" / DATABASE, filled[1]
    content = content_of(path)
    chance = random.Random(seed)
    # Not the first pages, which hold what the others are found by: a start is refused then.
    pages = [chance.randrange(12, path.stat().st_size // PAGE_BYTES) for _ in range(40)]
    flip(path, pages, 1, seed)
    assert_recovered(place, pushed, jids_hit(content, pages))
    server = BrokerServer(data_dir=place)
    try:
        server.start()
    except StartError as refused:
        # Two pages seem to be one: nothing can be written safely.
        assert "pages in use may be taken for free ones" in str(refused)
        return
    with closing_server(server), RawClient(server.url) as raw:
        done = drain(raw)
        unreadable = raw.info()["server"].get("unreadable_jobs", 0)
        assert "Traceback" not in log_of(server)
    assert len(done) == len(set(done))
    assert set(done) <= set(pushed)
    assert len(pushed) - len(done) == unreadable
    assert unreadable > 0


@pytest.mark.timeout(120)
@pytest.mark.parametrize("first", [1, 2, 3])
def test_pages_that_all_others_are_found_by_are_named_at_start_and_recovered_without(
    place: Path, filled: tuple[Path, list[str]], first: int
) -> None:
    """The header and the schema, the map of the pages, and the roots of the tables."""
    path, pushed = place / "db" / DATABASE, filled[1]
    content = content_of(path)
    pages = list(range(first, 11))
    overwrite(path, pages, first)
    before = path.read_bytes()
    line = refusal(place / "db")
    assert "damaged" in line
    assert str(path) in line
    assert "broker recover" in line
    assert path.read_bytes() == before
    assert_recovered(place, pushed, jids_hit(content, pages))


@pytest.mark.timeout(120)
def test_a_file_that_was_cut_is_named_at_start_and_recovered_up_to_there(
    place: Path, filled: tuple[Path, list[str]]
) -> None:
    path, pushed = place / "db" / DATABASE, filled[1]
    content = content_of(path)
    pages = path.stat().st_size // PAGE_BYTES
    with path.open("r+b") as file:
        file.truncate(pages // 2 * PAGE_BYTES)
    line = refusal(place / "db")
    assert f"it was cut to {pages // 2} of its {pages} pages" in line
    assert_recovered(place, pushed, jids_hit(content, list(range(pages // 2 + 1, pages + 1))))


@pytest.mark.timeout(120)
def test_a_damaged_list_of_free_pages_is_named_at_start_and_all_is_recovered(
    place: Path, filled: tuple[Path, list[str]]
) -> None:
    """A page in use might be taken for a free one, and be written over."""
    path, pushed = place / "db" / DATABASE, filled[1]
    with path.open("r+b") as file:
        file.seek(32)
        file.write((path.stat().st_size // PAGE_BYTES - 2).to_bytes(4) + (3).to_bytes(4))
    before = path.read_bytes()
    assert "pages in use may be taken for free ones" in refusal(place / "db")
    assert path.read_bytes() == before
    assert_recovered(place, pushed, set())


# The log


def cut_in_the_middle(log: Path) -> None:
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size // 2)


def removed(log: Path) -> None:
    log.unlink()


def garbage_in_the_middle(log: Path) -> None:
    with log.open("r+b") as file:
        file.seek(log.stat().st_size // 2)
        file.write(random.Random(1).randbytes(100))


def garbage_at_its_head(log: Path) -> None:
    with log.open("r+b") as file:
        file.write(random.Random(1).randbytes(32))


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "damage", [cut_in_the_middle, removed, garbage_in_the_middle, garbage_at_its_head]
)
def test_a_log_that_lost_answered_commits_is_noticed_and_said(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    with BrokerServer(data_dir=tmp_path) as server:
        with RawClient(server.url) as raw:
            pushed = push(raw, 300)
        server.restart()
        with RawClient(server.url) as raw:
            for _ in range(10):
                pushed += push(raw, 30)
            # A kill alone loses nothing and is nothing to speak of.
            server.kill()
            server.start()
        assert "lost" not in health(server).json()
        server.kill()
        log = tmp_path / "db" / "broker.db-wal"
        size = log.stat().st_size
        assert size > 0
        damage(log)
        server.start()
        answer = health(server)
        with RawClient(server.url) as raw:
            done = drain(raw)
            told = raw.info()["server"]["lost"]
        said = log_of(server)
    missing = len(pushed) - len(done)
    assert done == pushed[: len(done)]
    assert 0 < missing <= 300
    assert answer.status_code == 200
    for text in (told, answer.json()["lost"], said):
        assert f"Up to {missing} stored jobs are missing" in text
        assert "were answered" in text
    kept = list((tmp_path / "db").glob("broker.db-wal.at-*"))
    assert len(kept) == (0 if damage is removed else 1)


def test_a_database_that_is_gone_is_said_when_jobs_were_answered(tmp_path: Path) -> None:
    with BrokerServer(data_dir=tmp_path) as server:
        with RawClient(server.url) as raw:
            push(raw, 10)
        server.stop()
        (tmp_path / "db" / DATABASE).unlink()
        server.start()
        assert "Up to 10 stored jobs are missing" in health(server).json()["lost"]
