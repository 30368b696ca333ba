"""What sinks have written, read back: each record of a crawl once, in pages of any size, while more
is written; the same for each kind of sink that can be read."""

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from devservers import PostgresServer
from manyhands.shared.results.choice import Listing
from manyhands.shared.results.pieces import Mark
from manyhands.shared.results.protocol import WrongPlace
from manyhands.worker.records import PageRecord, PlainRecord, Record
from manyhands.worker.sinks.kinds import make_sinks
from manyhands.worker.sinks.servers.postgres import PostgresSink
from manyhands.worker.sinks.servers.postgres_tables import PAGES, table_and_row
from tests.support.read_back import CRAWL, all_of, choice, links_of, opened, page_of
from tests.support.sink_records import full_page, hostile_pages, page, page_outside_of_crawls, plain

LIMITS = (1, 3, 1000)


@pytest.fixture(params=["jsonl", "zst", "parquet", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of a sink without records."""
    match request.param:
        case "jsonl":
            return f"jsonl:{tmp_path}/pages.ndjson"
        case "zst":
            return f"jsonl:{tmp_path}/pages.jsonl.zst"
        case "parquet":
            return f"parquet:{tmp_path}/tables"
    server: PostgresServer = request.getfixturevalue("postgres")
    schema = f"test_{secrets.token_hex(4)}"
    asyncio.run(_execute(server.url, f"CREATE SCHEMA {schema}"))
    return f"{server.url}?search_path={schema}"


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def write(url: str, *batches: Sequence[Record]) -> None:
    """As a worker does that then stops."""

    async def run() -> None:
        (sink,) = make_sinks([url], [PageRecord])
        await sink.open()
        for batch in batches:
            wanted = [record for record in batch if type(record) in sink.kinds]
            await sink.write(wanted)
        await sink.close()

    asyncio.run(run())


def by_id(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    found = {row["id"]: row for row in rows}
    assert len(found) == len(rows), "a record was given twice"
    return found


def as_stored(url: str, record: PageRecord) -> dict[str, Any]:
    """Parquet has milliseconds, and nothing of a list beside no links."""
    stored = asdict(record)
    if url.startswith("parquet:"):
        stored["fetched_at"] = stored["fetched_at"][:-4] + "000Z"
    return stored


def test_every_field_of_a_record_comes_back(url: str) -> None:
    records = [full_page(1), page(2), full_page(3)]
    write(url, records)
    found = by_id(all_of(url, choice()))
    assert found == {record.id: as_stored(url, record) for record in records}


@pytest.mark.parametrize("limit", LIMITS)
def test_pages_of_any_size_hold_each_record_once_while_more_is_written(
    url: str, limit: int
) -> None:
    records = [page(number, crawl=CRAWL + number % 2) for number in range(40)]
    mark: Mark | None = None
    rows: list[dict[str, Any]] = []
    for start in range(0, 40, 10):
        write(url, [*records[start : start + 10], plain(start)])
        found, mark = page_of(url, choice(), mark, limit)
        assert len(found) <= limit
        rows += found
    while found:
        found, mark = page_of(url, choice(), mark, limit)
        rows += found
    assert by_id(rows).keys() == {one.id for one in records if one.crawl == CRAWL}
    write(url, [page(99)])
    assert [row["id"] for row in page_of(url, choice(), mark, limit)[0]] == [page(99).id]


@pytest.mark.parametrize("limit", LIMITS)
def test_links_are_rows_of_their_own_also_where_a_page_of_them_ends_within_a_record(
    url: str, limit: int
) -> None:
    records = [full_page(1), page(2, links=[]), page(3), full_page(4)]
    write(url, records)
    rows = all_of(url, choice(Listing.LINKS), limit)
    wanted = [link for record in records for link in links_of(record)]
    assert len(wanted) == 9
    assert sorted(rows, key=lambda row: row["to"]) == sorted(wanted, key=lambda row: row["to"])


def test_what_was_durable_when_a_reading_began_ends_where_it_says(url: str) -> None:
    write(url, [page(1), page(2)])
    reading = opened(url, choice(fields=["id"]))
    end = reading.end
    reading.close()
    write(url, [page(3)])
    assert [row["id"] for row in page_of(url, choice(fields=["id"]), end, 10)[0]] == [page(3).id]


def test_records_are_chosen_by_kind_status_and_host(url: str) -> None:
    failed = page(2, id="2.failed", kind="failed", status=404, reason="http 404")
    other = page(3, id="3.other", kind="other", url="https://other.example/")
    write(url, [page(1), failed, other])
    only = ["id"]
    assert all_of(url, choice(fields=only, kinds=frozenset({"failed"}))) == [{"id": "2.failed"}]
    assert all_of(url, choice(fields=only, status=404)) == [{"id": "2.failed"}]
    assert all_of(url, choice(fields=only, host="other.example")) == [{"id": "3.other"}]


def test_hostile_pages_and_those_of_no_crawl_do_no_harm(url: str) -> None:
    records = [*hostile_pages(), page_outside_of_crawls(200)]
    write(url, records)
    assert by_id(all_of(url, choice())).keys() == {one.id for one in records if one.crawl == CRAWL}


def test_nothing_is_there_before_anything_was_written(url: str) -> None:
    assert all_of(url, choice()) == []
    _, mark = page_of(url, choice(), None, 5)
    write(url, [page(1)])
    assert [row["id"] for row in page_of(url, choice(), mark, 5)[0]] == [page(1).id]


@pytest.mark.parametrize("place", [5, "x", [1], {"": 5}, {"": [-1, 0]}, [1, "x"], [-1, "", 0]])
def test_a_place_that_is_none_is_refused(url: str, place: object) -> None:
    write(url, [page(1)])
    with pytest.raises(WrongPlace):
        page_of(url, choice(), Mark(place), 5)


# Of one kind


def test_what_was_not_confirmed_is_not_given(tmp_path: Path) -> None:
    url = f"jsonl:{tmp_path}/pages.ndjson"
    write(url, [page(1)])
    with (tmp_path / "pages.ndjson").open("ab") as file:
        file.write((tmp_path / "pages.ndjson").read_bytes().replace(b"key1", b"key2"))
        file.write(b'{"id": "half')
    assert by_id(all_of(url, choice())).keys() == {page(1).id}


def test_the_files_of_several_processes_are_read(tmp_path: Path) -> None:
    url = f"jsonl:{tmp_path}/pages.ndjson"

    async def run() -> None:
        sinks = [make_sinks([url], [PageRecord])[0] for _ in range(3)]
        for number, sink in enumerate(sinks):
            await sink.open()
            await sink.write([page(number)])
        assert (tmp_path / "pages-3.ndjson").exists()
        for sink in sinks:
            await sink.close()

    asyncio.run(run())
    assert by_id(all_of(url, choice(), 1)).keys() == {page(number).id for number in range(3)}


def test_what_others_emit_is_no_page(tmp_path: Path) -> None:
    url = f"jsonl:{tmp_path}/pages.ndjson"
    write(url, [PlainRecord("a", {"crawl": CRAWL, "url": "x"}), PlainRecord("b", [CRAWL]), page(1)])
    assert by_id(all_of(url, choice())).keys() == {page(1).id}


async def test_a_transaction_that_ends_late_is_in_a_later_pass(
    postgres: PostgresServer,
) -> None:
    """It began before the reading and its ids come first: a cursor by id, or by time, would have
    passed them."""
    schema = f"test_{secrets.token_hex(4)}"
    await _execute(postgres.url, f"CREATE SCHEMA {schema}")
    url = f"{postgres.url}?search_path={schema}"
    sink = PostgresSink(url)
    await sink.open()
    await sink.write([page(5)])
    late = PostgresSink(url)
    await late.open()
    connection = late._connection
    assert connection is not None
    await connection.execute("BEGIN")
    _, row = table_and_row(page(1))
    await connection.copy_records_to_table(PAGES.incoming, records=[row])
    await connection.execute(PAGES.insert)
    await sink.write([page(6)])

    def ids(mark: Mark | None) -> tuple[list[str], Mark]:
        rows, behind = page_of(url, choice(fields=["id"]), mark, 10)
        return [row["id"] for row in rows], behind

    first, mark = await asyncio.to_thread(ids, None)
    await connection.execute("COMMIT")
    second, mark = await asyncio.to_thread(ids, mark)
    third, _ = await asyncio.to_thread(ids, mark)
    assert sorted(first + second) == sorted([page(1).id, page(5).id, page(6).id])
    assert third == []
    await late.close()
    await sink.close()
