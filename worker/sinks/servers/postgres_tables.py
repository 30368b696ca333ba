"""The tables of the PostgreSQL sink: columns, statements, and the row of a record. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any

from manyhands.shared.crawl.page_fields import FIELDS, FIRST_VERSION, OF_LINKS, Kind, PageField
from manyhands.worker.records import PageRecord, PlainRecord, Record
from manyhands.worker.sinks.rows import json_without_nul, text_without_nul

# Before each link of a page, and what is said of it, on their way into the table: neither has one.
BEFORE_LINK = "\n"


@dataclass(slots=True, frozen=True)
class Table:
    """Rows go into `incoming`, a temporary table of the connection, and from there into `name` by
    `insert`."""

    name: str
    create: str
    incoming: str
    create_incoming: str
    insert: str


_TYPES = {
    Kind.NAME: "text",
    Kind.WORD: "text",
    Kind.TEXT: "text",
    Kind.RAW: "text",
    Kind.INTEGER: "integer",
    Kind.LONG: "bigint",
    Kind.BOOLEAN: "boolean",
    Kind.TIME: "timestamptz",
    Kind.NAMES: "text[]",
    Kind.TEXTS: "text[]",
    Kind.JSON: "jsonb",
}
_NAMES = [field.name for field in FIELDS]
# On their way into the table as one text: to send an array of 50 links costs this process five
# times as much. Other lists are short, or may have line ends in them.
_JOINED = frozenset(OF_LINKS)


def _column(field: PageField) -> str:
    """Also of a table that is older than the field, and whose rows cannot have it."""
    kind = _TYPES[field.kind]
    if field.name == "id":
        return f"{kind} PRIMARY KEY"
    if field.name == "schema":
        return f"{kind} NOT NULL DEFAULT {FIRST_VERSION}"
    is_of_old_rows = field.since == FIRST_VERSION
    return f"{kind} NOT NULL" if field.is_required and is_of_old_rows else kind


def _incoming(field: PageField) -> str:
    return "text" if field.name in _JOINED else _TYPES[field.kind]


def _selected(name: str) -> str:
    # Behind the first line end: so that a list with one empty text differs from one of none.
    return f"(string_to_array({name}, E'\\n'))[2:]" if name in _JOINED else name


# The id is the key because it says crawl, URL and visit, and is short: a URL itself can be longer
# than what fits into an index (2,700 bytes).
PAGES = Table(
    name="pages",
    create=f"CREATE TABLE pages ({', '.join(f'{one.name} {_column(one)}' for one in FIELDS)})",
    incoming="incoming_pages",
    create_incoming=f"""
        CREATE TEMPORARY TABLE incoming_pages (
            {", ".join(f"{one.name} {_incoming(one)}" for one in FIELDS)}
        ) ON COMMIT DELETE ROWS""",
    # In the order of their ids, so that two processes with the same pages cannot deadlock.
    insert=f"""
        INSERT INTO pages ({", ".join(_NAMES)})
        SELECT {", ".join(map(_selected, _NAMES))}
        FROM incoming_pages
        ORDER BY id
        ON CONFLICT (id) DO NOTHING""",
)
FIRST_COLUMNS = frozenset(field.name for field in FIELDS if field.since == FIRST_VERSION)
# What a table of an older release lacks. Its rows stay, and say by their schema what they have not.
LATER_COLUMNS = {
    field.name: f"ALTER TABLE pages ADD COLUMN {field.name} {_column(field)}"
    for field in FIELDS
    if field.since > FIRST_VERSION
}
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
COLUMNS_OF_PAGES = """
    SELECT attname FROM pg_attribute
    WHERE attrelid = to_regclass('pages') AND attnum > 0 AND NOT attisdropped"""
# With the columns of the first release first: then it can take the place of the view of that one.
CREATE_EDGES = """
    CREATE OR REPLACE VIEW edges AS
    SELECT id AS page, crawl, final_url AS source, link.target, link.text, link.rel
    FROM pages, unnest(links, link_texts, link_rels) AS link (target, text, rel)"""


def table_and_row(record: Record) -> tuple[Table, tuple[Any, ...]]:
    """Raises TypeError or ValueError for what can never be a row."""
    if isinstance(record, PageRecord):
        return PAGES, _page(record)
    if isinstance(record, PlainRecord):
        return RECORDS, (record.id, json_without_nul(record.body).decode())
    raise TypeError(f"there is no table for {type(record).__name__}")


def _page(page: PageRecord) -> tuple[Any, ...]:
    return tuple(convert(value) for convert, value in zip(_CONVERT, _values(page), strict=True))


def _text(value: str | None) -> str | None:
    return None if value is None else text_without_nul(value)


def _texts(value: Sequence[str] | None) -> list[str] | None:
    return None if value is None else [text_without_nul(one) for one in value]


def _joined(value: Sequence[str] | None) -> str | None:
    if not value:
        return None if value is None else ""
    return text_without_nul(BEFORE_LINK + BEFORE_LINK.join(value))


def _json(value: Any) -> str | None:
    return None if value is None else json_without_nul(value).decode()


def _same(value: Any) -> Any:
    return value


_BY_KIND: dict[Kind, Callable[[Any], Any]] = {
    Kind.TIME: datetime.fromisoformat,
    Kind.NAMES: _texts,
    Kind.TEXTS: _texts,
    Kind.JSON: _json,
    **dict.fromkeys((Kind.NAME, Kind.WORD, Kind.TEXT, Kind.RAW), _text),
    **dict.fromkeys((Kind.INTEGER, Kind.LONG, Kind.BOOLEAN), _same),
}
# The id stays as it is: without a NUL it could be that of another page.
_ODD: dict[str, Callable[[Any], Any]] = {"id": _same, **dict.fromkeys(_JOINED, _joined)}
_CONVERT = [_ODD.get(field.name, _BY_KIND[field.kind]) for field in FIELDS]
_values = attrgetter(*_NAMES)
