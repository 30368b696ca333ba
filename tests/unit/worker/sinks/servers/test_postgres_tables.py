"""The row of a record. That the tables take it is in tests/integration/test_postgres_sink.py."""

from datetime import UTC, datetime

import pytest

from manyhands.shared.crawl.page_fields import FIELDS, FIRST_VERSION
from manyhands.worker.records import Capture, PlainRecord
from manyhands.worker.sinks.servers.postgres import PostgresSink
from manyhands.worker.sinks.servers.postgres_tables import (
    BEFORE_LINK,
    FIRST_COLUMNS,
    LATER_COLUMNS,
    PAGES,
    RECORDS,
    TABLES,
    table_and_row,
)
from tests.support.sink_records import page, page_outside_of_crawls, plain

CAPTURE = Capture("id", "url", "2026-11-17T05:44:33Z", "127.0.0.1", b"", b"", b"", False)


def test_a_row_has_a_value_for_each_column_in_its_order():
    table, row = table_and_row(page(1))
    assert table is PAGES
    named = dict(zip((field.name for field in FIELDS), row, strict=True))
    assert (named["id"], named["crawl"], named["visit"]) == (page(1).id, 7, 1)
    assert (named["url"], named["final_url"]) == (page(1).url, page(1).final_url)
    assert named["fetched_at"] == datetime(2026, 11, 17, 5, 44, 33, 123456, tzinfo=UTC)
    assert named["links"].split(BEFORE_LINK) == ["", *page(1).links]


def test_a_table_of_an_older_release_can_have_all_later_columns():
    assert set(LATER_COLUMNS) | FIRST_COLUMNS == set(page(1).__slots__)
    assert "NOT NULL DEFAULT 1" in LATER_COLUMNS["schema"]
    others = [statement for name, statement in LATER_COLUMNS.items() if name != "schema"]
    assert not [statement for statement in others if "NOT NULL" in statement]


def test_what_is_none_is_null():
    _, row = table_and_row(page_outside_of_crawls(1))
    chosen = [field for field in FIELDS if field.since > FIRST_VERSION and not field.is_required]
    assert row.count(None) == 5 + len(chosen)


def test_only_the_id_keeps_a_nul():
    """Without it, it could be that of another page."""
    _, row = table_and_row(page(1, id="a\0b", title="a\0b", links=["a\0b"]))
    assert [value for value in row if isinstance(value, str) and "\0" in value] == ["a\0b"]
    assert row[0] == "a\0b"


def test_a_record_is_an_id_and_json():
    assert table_and_row(plain(1)) == (RECORDS, ("job.1", '{"number":1}'))


@pytest.mark.parametrize(
    "record", [page(1, fetched_at="yesterday"), PlainRecord("set", {1}), CAPTURE]
)
def test_what_can_be_no_row_is_an_error(record):
    with pytest.raises((TypeError, ValueError)):
        table_and_row(record)


def test_rows_are_inserted_in_the_order_of_their_ids():
    """Or else two processes with the same pages could wait for each other."""
    assert all("ORDER BY id" in table.insert for table in TABLES)


def test_the_name_of_the_sink_says_neither_user_nor_password():
    sink = PostgresSink("postgres://bob:s3cret@host/crawl?sslmode=require")
    assert sink.name == "postgres://host:5432/crawl"
