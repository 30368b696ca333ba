"""The tables of the PostgreSQL sink: columns, statements, and the row of a record. Pure."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from manyhands.worker.records import PageRecord, PlainRecord, Record
from manyhands.worker.sinks.rows import json_without_nul, text_without_nul

# Between the links of a page on their way into the table. No URL has one in it.
BETWEEN_LINKS = "\n"


@dataclass(slots=True, frozen=True)
class Table:
    """Rows go into `incoming`, a temporary table of the connection, and from there into `name` by
    `insert`."""

    name: str
    create: str
    incoming: str
    create_incoming: str
    insert: str


# The id is the key because it says crawl, URL and visit, and is short: a URL itself can be longer
# than what fits into an index (2,700 bytes).
PAGES = Table(
    name="pages",
    create="""
        CREATE TABLE pages (
            id text PRIMARY KEY,
            crawl bigint,
            url text NOT NULL,
            visit integer,
            final_url text NOT NULL,
            status integer NOT NULL,
            content_type text NOT NULL,
            title text,
            language text,
            is_truncated boolean NOT NULL,
            fetched_at timestamptz NOT NULL,
            depth integer,
            is_indexable boolean NOT NULL,
            links text[] NOT NULL
        )""",
    incoming="incoming_pages",
    # The links as one text: to send an array of 50 costs this process five times as much.
    create_incoming="""
        CREATE TEMPORARY TABLE incoming_pages (
            id text,
            crawl bigint,
            url text,
            visit integer,
            final_url text,
            status integer,
            content_type text,
            title text,
            language text,
            is_truncated boolean,
            fetched_at timestamptz,
            depth integer,
            is_indexable boolean,
            links text
        ) ON COMMIT DELETE ROWS""",
    # In the order of their ids, so that two processes with the same pages cannot deadlock.
    insert="""
        INSERT INTO pages (
            id, crawl, url, visit, final_url, status, content_type, title, language,
            is_truncated, fetched_at, depth, is_indexable, links
        )
        SELECT
            id, crawl, url, visit, final_url, status, content_type, title, language,
            is_truncated, fetched_at, depth, is_indexable, string_to_array(links, E'\\n')
        FROM incoming_pages
        ORDER BY id
        ON CONFLICT (id) DO NOTHING""",
)
RECORDS = Table(
    name="records",
    create="CREATE TABLE records (id text PRIMARY KEY, body jsonb NOT NULL)",
    incoming="incoming_records",
    create_incoming="""
        CREATE TEMPORARY TABLE incoming_records (id text, body jsonb) ON COMMIT DELETE ROWS""",
    insert="""
        INSERT INTO records (id, body)
        SELECT id, body FROM incoming_records
        ORDER BY id
        ON CONFLICT (id) DO NOTHING""",
)
TABLES = (PAGES, RECORDS)
# A view and no table: it costs nothing to write, and answers what a table would. Who often asks
# which pages link to one can have `CREATE INDEX ON pages USING gin (links)`.
EDGES = "edges"
CREATE_EDGES = """
    CREATE VIEW edges AS
    SELECT id AS page, crawl, final_url AS source, unnest(links) AS target FROM pages"""


def table_and_row(record: Record) -> tuple[Table, tuple[Any, ...]]:
    """Raises TypeError or ValueError for what can never be a row."""
    if isinstance(record, PageRecord):
        return PAGES, _page(record)
    if isinstance(record, PlainRecord):
        return RECORDS, (record.id, json_without_nul(record.body).decode())
    raise TypeError(f"there is no table for {type(record).__name__}")


def _page(page: PageRecord) -> tuple[Any, ...]:
    # The id stays as it is: without a NUL it could be that of another page.
    return (
        page.id,
        page.crawl,
        text_without_nul(page.url),
        page.visit,
        text_without_nul(page.final_url),
        page.status,
        text_without_nul(page.content_type),
        None if page.title is None else text_without_nul(page.title),
        None if page.language is None else text_without_nul(page.language),
        page.is_truncated,
        datetime.fromisoformat(page.fetched_at),
        page.depth,
        page.is_indexable,
        text_without_nul(BETWEEN_LINKS.join(page.links)),
    )
