"""A state that is looked through: what its counters say is what its rows are, or the difference is
named."""

import contextlib
import re
import shutil
import sqlite3
from pathlib import Path

import psycopg
import pytest

from manyhands.shared.crawl.store.errors import StateError
from manyhands.shared.crawl.store.opening import store_at
from manyhands.shared.crawl.store.postgres.place import parse_place
from manyhands.shared.crawl.store.postgres.schema import Names, shard_names
from manyhands.shared.crawl.store.sqlite.database import PAGE_BYTES
from manyhands.shared.crawl.store.sqlite.directory import shard_file
from tests.support.state_content import NOW, fill
from tests.support.state_places import KINDS, NewPlace, checked

SHARDS = 3
SHARD = 1
# Statements of a shard, and what is said then.
SPOILS = {
    "UPDATE @counters SET value = value + 2 WHERE crawl = 1 AND name = 'queued'": (
        r"shard 01: crawl 1: the counter queued is \d+, the rows are \d+"
    ),
    "DELETE FROM @counters WHERE crawl = 2 AND name = 'admitted'": (
        r"shard 01: crawl 2: the counter admitted is 0, the rows are \d+"
    ),
    "DELETE FROM @outgoing": r"shard 01: crawl 1: the counter outgoing is \d+, the rows are 0",
    "UPDATE @origins SET queued = queued + 1 WHERE id = 1": (
        r"shard 01: \d hosts whose count of waiting URLs is wrong, such as http\S+"
    ),
    "UPDATE @domains SET queued = 0 WHERE id = 2": (
        r"shard 01: \d domains whose count of waiting URLs is wrong, such as site\d+\.com"
    ),
    "UPDATE @hosts SET admitted = 99 WHERE crawl = 2 AND origin = 1": (
        r"shard 01: \d hosts whose count of admitted URLs is wrong, such as http\S+"
    ),
    "DELETE FROM @seen WHERE url = 1": (
        r"shard 01: \d URLs that are not among the seen, such as http\S+"
    ),
    "UPDATE @seen SET url = 77777 WHERE url = 2": (
        r"shard 01: \d seen URLs that are nowhere, such as number 77777"
    ),
    "UPDATE @urls SET origin = 77777 WHERE id = 3": (
        r"shard 01: \d URLs without their host or domain, such as http\S+"
    ),
    "UPDATE @domains SET name = 'zebra.org' WHERE id = 1": (
        r"shard 01: 1 domains of other shards, such as zebra\.org"
    ),
    "INSERT INTO @received VALUES (0, 99999)": (
        r"shard 01 has had 99,999 batches of links from shard 00, which has sent \d+"
    ),
}
# Of the control tables.
SPOILS_CONTROL = {
    "DELETE FROM @crawls WHERE id = 1": "crawl 1 has URLs, but there is no such crawl",
    "INSERT INTO @seed_files (crawl, name, digest) VALUES (99, 'seeds.txt', '')": (
        "1 seed files are for a crawl that is not there"
    ),
    # Of which there is nothing.
    "UPDATE @crawls SET exclusions_key = fingerprint WHERE id = 2": (
        "the exclusions of crawl 2 are damaged: .*"
    ),
    "UPDATE @seeds SET shard = 64": (
        r"\d batches of seeds are for a shard or a crawl that is not there"
    ),
}
ALL_SPOILS = [
    (shard, sql, said)
    for shard, spoils in ((SHARD, SPOILS), (None, SPOILS_CONTROL))
    for sql, said in spoils.items()
]


def spoil(place: str, shard: int | None, sql: str) -> None:
    if "://" in place:
        found = parse_place(place)
        names = Names(found.schema) if shard is None else shard_names(found.schema, 1, shard)
        with psycopg.connect(found.conninfo, autocommit=True) as connection:
            connection.execute(names.sql(sql))
        return
    file = Path(place, "control.db") if shard is None else shard_file(Path(place), 1, shard)
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.execute(sql.replace("@", ""))


def are_said(expected: list[str], differences: list[str]) -> bool:
    return all(any(re.fullmatch(said, one) for one in differences) for said in expected)


@pytest.mark.parametrize("kind", KINDS)
def test_every_difference_is_named(new_place: NewPlace, kind: str) -> None:
    place = new_place(kind)
    fill(place, SHARDS)
    whole = checked(place)
    assert (whole.shards, whole.differences) == (SHARDS, [])
    assert whole.crawls == {1: "starting", 2: "starting"}
    assert {crawl: found["admitted"] for crawl, found in whole.found.items()} == {1: 400, 2: 400}
    for shard, sql, _ in ALL_SPOILS:
        spoil(place, shard, sql)
    differences = checked(place).differences
    assert are_said([said for *_, said in ALL_SPOILS], differences), differences


def test_a_difference_alone_is_said_and_no_other(new_place: NewPlace, tmp_path: Path) -> None:
    place = new_place("sqlite")
    fill(place, SHARDS)
    # What has to differ then, too.
    also = {"UPDATE @urls SET origin": 6, "UPDATE @seen SET": 2, "UPDATE @origins": 2}
    for shard, sql, said in ALL_SPOILS:
        copy = tmp_path / "copy"
        shutil.copytree(place, copy)
        spoil(str(copy), shard, sql)
        differences = checked(str(copy)).differences
        assert are_said([said], differences), differences
        most = next((number for start, number in also.items() if sql.startswith(start)), 1)
        assert len(differences) <= most, differences
        shutil.rmtree(copy)


def test_a_damaged_file_is_named_and_the_others_are_looked_through(new_place: NewPlace) -> None:
    place = new_place("sqlite")
    fill(place, SHARDS, 50)
    file = shard_file(Path(place), 1, SHARD)
    with file.open("r+b") as pages:
        pages.seek(file.stat().st_size // PAGE_BYTES // 2 * PAGE_BYTES)
        pages.write(b"\xff" * 8 * PAGE_BYTES)
    spoil(place, 0, "UPDATE @counters SET value = 5 WHERE crawl = 1 AND name = 'queued'")
    first, second = checked(place).differences
    assert first.startswith("shard 00: crawl 1: the counter queued is 5, the rows are")
    assert f"shard 01: {file} is damaged" in second


@pytest.mark.parametrize("kind", KINDS)
def test_it_makes_nothing_and_changes_nothing(new_place: NewPlace, kind: str) -> None:
    place = new_place(kind)
    for _ in range(2):
        with pytest.raises(StateError, match="there is no state in"):
            checked(place)
    fill(place, SHARDS)
    with (
        contextlib.closing(store_at((place,))) as store,
        contextlib.closing(store.open_control()) as control,
    ):
        epoch = control.claim_lease(SHARD, "an owner", 60.0)
        assert epoch is not None
        shard = store.open_shard(1, SHARD, epoch, NOW)
        version = control.version()
        with contextlib.closing(shard):
            with shard.transaction():
                shard.cancel(1, 5)
                # Beside the owner, in the middle of a transaction.
                assert checked(place).differences == []
            with shard.transaction():
                shard.cancel(1, 5)
        assert checked(place).differences == []
        assert control.version() == version
