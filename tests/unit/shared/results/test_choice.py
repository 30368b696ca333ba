"""Which records and fields are wanted, as which rows and bytes, and which sink they come from."""

import csv
import io
import json

import pytest

from manyhands.shared.errors import ConfigError
from manyhands.shared.results.choice import (
    FIELDS_OF,
    Choice,
    Listing,
    UnknownName,
    chosen_fields,
    chosen_kinds,
)
from manyhands.shared.results.formats import Format, beginning, encoded
from manyhands.shared.results.opening import source_among, why_none


def test_only_what_rows_and_filters_need_is_read():
    wanted = Choice(Listing.PAGES, ("url", "title"), frozenset({"page"}), 200, "site.example")
    assert wanted.needed == ("url", "title", "kind", "status")
    assert "html" not in Choice(Listing.LINKS, FIELDS_OF[Listing.LINKS]).needed


def test_names_are_those_of_the_listing():
    assert chosen_fields(Listing.PAGES, "title, url,title") == ("title", "url")
    assert chosen_fields(Listing.LINKS, None) == ("from", "to", "text", "rel")
    assert chosen_kinds(None) == frozenset()
    for refused in ("", "url,", "from"):
        with pytest.raises(UnknownName, match="is no field"):
            chosen_fields(Listing.PAGES, refused)
    with pytest.raises(UnknownName, match="is no kind: page, other, redirect, failed, refused"):
        chosen_kinds("pages")


def test_links_of_a_record_without_what_was_said_of_them_are_rows():
    page = {"final_url": "a", "links": ["b", "c"], "link_texts": None, "link_rels": ["", "next"]}
    rows = Choice(Listing.LINKS, ("to", "text", "rel")).rows(page)
    assert rows == [
        {"to": "b", "text": None, "rel": ""},
        {"to": "c", "text": None, "rel": "next"},
    ]


def test_a_row_is_a_line_of_json_or_of_csv():
    row = {"a": 'one, "two"\nthree', "b": None, "c": [1, "x"], "d": True}
    assert json.loads(encoded(Format.NDJSON, row)) == row
    assert encoded(Format.NDJSON, row).count(b"\n") == 1
    text = (beginning(Format.CSV, tuple(row)) + encoded(Format.CSV, row)).decode()
    assert list(csv.reader(io.StringIO(text, newline=""))) == [
        ["a", "b", "c", "d"],
        ['one, "two"\nthree', "", '[1,"x"]', "true"],
    ]
    assert beginning(Format.NDJSON, tuple(row)) == b""


def test_the_first_sink_that_can_be_read_is_the_source():
    urls = ["warc:archive", "jsonl+s3://bucket/x", "parquet:tables", "jsonl:pages.ndjson"]
    source = source_among(urls)
    assert source is not None
    assert source.name == "parquet:tables"
    secret = source_among(["postgres://user:secret@db.example/crawls"])
    assert secret is not None
    assert "secret" not in secret.name


def test_where_there_is_none_it_is_said_which_setting_and_why():
    assert source_among([]) is None
    assert "RESULTS" in why_none([])
    assert "is not set" in why_none([])
    urls = ["warc:archive", "kafka://k:9092/x"]
    assert source_among(urls) is None
    assert "(warc, kafka)" in why_none(urls)
    with pytest.raises(ConfigError, match=r"^RESULTS: jsonl has no option"):
        source_among(["jsonl:x?a=b"])
