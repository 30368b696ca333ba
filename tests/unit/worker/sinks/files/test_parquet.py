"""Pages and links as Parquet files, read back by pyarrow and DuckDB."""

import datetime
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyhands.shared.crawl.page_fields import OF_LINKS, VERSION
from manyhands.shared.errors import ConfigError
from manyhands.shared.sinks.manifest_tables import PARQUET_MANIFEST, PARQUET_SPOOL
from manyhands.worker.records import PageRecord
from manyhands.worker.sinks.files import parquet_tables
from manyhands.worker.sinks.files.parquet import ParquetFormat, ParquetSink
from manyhands.worker.sinks.files.parquet_tables import EDGES, NO_CRAWL, PAGES, convert, frames
from manyhands.worker.sinks.protocol import RecordsRefused
from tests.support.file_sinks import parquet_ids
from tests.support.sink_records import hostile_pages, page, page_outside_of_crawls


def converted(directory: Path, batches: Sequence[Sequence[PageRecord]]) -> dict[str, pa.Table]:
    """What comes of a segment with these batches, by its name."""
    segment = directory / "some.arrows.open"
    segment.write_bytes(b"".join(map(frames, batches)))
    return {name: pq.read_table(path) for path, name in convert(segment, "some.arrows")}


async def written(directory: Path, batches: Sequence[Sequence[PageRecord]]) -> None:
    sink = ParquetSink(f"parquet:{directory}")
    await sink.open()
    for batch in batches:
        await sink.write(batch)
    await sink.close()


def asked(query: str) -> list[Any]:
    with duckdb.connect() as connection:
        return connection.sql(query).fetchall()


def test_pages_and_edges_are_files_of_their_crawl_and_day(tmp_path: Path):
    tables = converted(
        tmp_path,
        [
            [page(1), page(2, crawl=8), page(3, fetched_at="2026-11-18T00:00:00Z")],
            [page_outside_of_crawls(4), page(5)],
        ],
    )
    assert sorted(tables) == [
        "edges/crawl=7/date=2026-11-17/some.parquet",
        "edges/crawl=7/date=2026-11-18/some.parquet",
        "edges/crawl=8/date=2026-11-17/some.parquet",
        "pages/crawl=7/date=2026-11-17/some.parquet",
        "pages/crawl=7/date=2026-11-18/some.parquet",
        "pages/crawl=8/date=2026-11-17/some.parquet",
        f"pages/crawl={NO_CRAWL}/date=2026-11-17/some.parquet",
    ]
    first = tables["pages/crawl=7/date=2026-11-17/some.parquet"]
    assert first["id"].to_pylist() == [page(1).id, page(5).id]
    assert list(tmp_path.glob("*.part")) == []


def test_a_page_has_all_fields_of_its_record_but_the_links_and_the_crawl(tmp_path: Path):
    (table, _) = converted(tmp_path, [[page(1)]]).values()
    made = asdict(page(1))
    when = datetime.datetime(2026, 11, 17, 5, 44, 33, 123_000, tzinfo=datetime.UTC)
    assert table.schema.equals(PAGES)
    assert table.schema.metadata[b"manyhands.page_schema"] == str(VERSION).encode()
    kept = {name: value for name, value in made.items() if name not in ("crawl", *OF_LINKS)}
    assert table.to_pylist() == [kept | {"fetched_at": when, "link_count": 3}]


def test_an_edge_is_a_link_with_its_page_and_its_place_there(tmp_path: Path):
    said = {"link_texts": ["one", "", "three"], "link_rels": ["", "nofollow", ""]}
    pages = [
        page(1),
        page_outside_of_crawls(2),
        page(3, links=["https://only.example/"]),
        page(4, **said),
    ]
    tables = converted(tmp_path, [[pages[0], pages[2]], [pages[1]], [pages[3]]])
    edges = tables["edges/crawl=7/date=2026-11-17/some.parquet"]
    assert edges.schema.equals(EDGES)
    assert edges.to_pylist() == [
        {
            "page_id": one.id,
            "source": one.final_url,
            "target": target,
            "position": position,
            "text": None if one.link_texts is None else one.link_texts[position],
            "rel": None if one.link_rels is None else one.link_rels[position],
        }
        for one in (pages[0], pages[2], pages[3])
        for position, target in enumerate(one.links)
    ]


def test_records_of_crawls_that_chose_differently_are_in_one_table(tmp_path: Path):
    said = page(1, link_texts=["a", "b", "c"], open_graph={"og:title": ["x"]}, size=5)
    tables = converted(tmp_path, [[said, page(2)]])
    edges = tables["edges/crawl=7/date=2026-11-17/some.parquet"]
    assert edges["text"].to_pylist() == ["a", "b", "c", None, None, None]
    pages = tables["pages/crawl=7/date=2026-11-17/some.parquet"]
    assert pages["open_graph"].to_pylist() == ['{"og:title":["x"]}', None]


async def test_files_of_an_older_schema_are_not_mixed_with_ours(tmp_path: Path):
    await written(tmp_path, [[page(1)]])
    manifest = tmp_path / PARQUET_SPOOL / PARQUET_MANIFEST
    with closing(sqlite3.connect(manifest)) as database:
        database.execute("UPDATE facts SET value = 1")
        database.commit()
    sink = ParquetSink(f"parquet:{tmp_path}")
    with pytest.raises(ConfigError, match=r"has pages of schema 1.*name another place"):
        await sink.open()
    await sink.close()


def test_pages_without_links_make_no_edges(tmp_path: Path):
    assert list(converted(tmp_path, [[page(1, links=[])]])) == [
        "pages/crawl=7/date=2026-11-17/some.parquet"
    ]


def test_a_small_file_is_one_row_group_and_a_large_one_has_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    batches = [[page(10 * batch + number) for number in range(10)] for batch in range(6)]
    segment = tmp_path / "some.arrows.open"
    segment.write_bytes(b"".join(map(frames, batches)))

    def group_sizes() -> list[list[int]]:
        found = []
        for path, _ in convert(segment, "some.arrows"):
            metadata = pq.read_metadata(path)
            groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
            assert all(group.column(0).is_stats_set for group in groups)
            assert all(group.column(0).compression == "ZSTD" for group in groups)
            found.append([group.num_rows for group in groups])
        return found

    assert group_sizes() == [[60], [180]]
    monkeypatch.setattr(parquet_tables, "ROW_GROUP_ROWS", 25)
    assert group_sizes() == [[30, 30], [30] * 6]
    monkeypatch.setattr(parquet_tables, "ROW_GROUP_BYTES", 1)
    assert group_sizes() == [[10] * 6, [30] * 6]


def test_what_was_cut_short_while_it_was_converted_is_removed(tmp_path: Path):
    segment = tmp_path / "some.arrows.open"
    segment.write_bytes(frames([page(1)]))
    files = convert(segment, "some.arrows")
    path, _ = next(files)
    assert path.exists()
    files.close()  # type: ignore[attr-defined]
    assert list(tmp_path.iterdir()) == [segment]


async def test_readers_find_crawl_and_day_in_the_names(tmp_path: Path):
    await written(tmp_path, [[page(1), page(2, crawl=8), page_outside_of_crawls(3)]])
    rows = asked(
        f"SELECT crawl, date, url FROM '{tmp_path}/pages/**/*.parquet' ORDER BY crawl NULLS LAST"
    )
    day = datetime.date(2026, 11, 17)
    assert rows == [(7, day, page(1).url), (8, day, page(2).url), (None, day, page(3).url)]
    assert asked(f"SELECT url FROM '{tmp_path}/pages/**/*.parquet' WHERE crawl = 8") == [
        (page(2).url,)
    ]
    table = pq.read_table(tmp_path / "pages", filters=[("crawl", "=", 8)])
    assert table["url"].to_pylist() == [page(2).url]


async def test_links_of_a_page_can_be_joined_with_it(tmp_path: Path):
    await written(tmp_path, [[page(number) for number in range(20)]])
    rows = asked(
        f"SELECT p.url, p.link_count, count(*) FROM '{tmp_path}/pages/**/*.parquet' p "
        f"JOIN '{tmp_path}/edges/**/*.parquet' e ON e.page_id = p.id GROUP BY ALL"
    )
    assert sorted(rows) == sorted((page(number).url, 3, 3) for number in range(20))


async def test_a_repeated_page_is_there_once(tmp_path: Path):
    for _ in range(2):
        await written(tmp_path, [[page(1), page(2)], [page(2), page(3)]])
    assert parquet_ids(tmp_path) == {page(number).id: 1 for number in (1, 2, 3)}


async def test_hostile_pages_are_kept_with_text_that_is_valid(tmp_path: Path):
    await written(tmp_path, [hostile_pages()])
    found = pq.read_table(tmp_path / "pages").to_pylist()
    assert sorted(row["id"] for row in found) == sorted(one.id for one in hostile_pages())
    titles = {row["id"]: row["title"] for row in found}
    assert titles["hostile.half a pair"] == "before\ufffdafter"
    assert titles["hostile.nul"] == "before\0after"
    assert asked(f"SELECT count(*) FROM '{tmp_path}/pages/**/*.parquet'") == [(len(found),)]
    assert asked(f"SELECT count(*) FROM '{tmp_path}/edges/**/*.parquet'") == [
        (sum(len(one.links) for one in hostile_pages()),)
    ]


@pytest.mark.parametrize(
    "changed",
    [
        {"fetched_at": "yesterday"},
        {"fetched_at": ""},
        {"fetched_at": "../../etc/passwd"},
        {"fetched_at": "2026-11-17T05:44:33"},
        {"status": 2**40},
        {"depth": 2**70},
        {"crawl": 2**70},
        {"url": None},
        {"links": [None]},
        {"title": 7},
    ],
)
def test_what_no_table_can_hold_is_refused_by_its_place(changed: dict[str, Any]):
    with pytest.raises(RecordsRefused) as raised:
        ParquetFormat().encode([page(1), page(2, **changed), page(3)])
    assert list(raised.value.reasons) == [1]


async def test_a_segment_of_many_batches_becomes_one_file(tmp_path: Path):
    await written(tmp_path, [[page(number)] for number in range(30)])
    assert asked(f"SELECT count(*) FROM glob('{tmp_path}/**/*.parquet')") == [(2,)]
    assert len(parquet_ids(tmp_path)) == 30


def test_readers_do_not_look_where_segments_are_spooled():
    assert PARQUET_SPOOL.startswith(("_", "."))
