"""The tables of a place's manifest, which its writers change and its readers look into. Pure.

What a segment holds beyond its size in the manifest does not count.
"""

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from manyhands.shared.crawl.page_fields import FIRST_VERSION
from manyhands.shared.crawl.store.sqlite.schema import Schema

# Of a Parquet sink's directory.
PARQUET_SPOOL = "_spool"
PARQUET_MANIFEST = "parquet.manifest"
PARQUET_PAGES, PARQUET_EDGES = "pages", "edges"


def lines_manifest(path: Path) -> Path:
    """Of a file of lines, and of those beside it."""
    return path.with_name(path.name + ".manifest")


class SegmentState(IntEnum):
    """PUBLISHED: it is in its final place. LOST: its file was removed or cut from outside."""

    OPEN = 0
    SEALED = 1
    PUBLISHED = 2
    LOST = 3


@dataclass(slots=True, frozen=True)
class Segment:
    """`size` is the committed part of its file, in bytes. Times are in seconds since the epoch."""

    name: str
    state: SegmentState
    size: int
    records: int
    created_at: float


PAGE_SCHEMA = "page_schema"
IS_UNFINISHED = f"state <= {SegmentState.SEALED:d}"
_FIRST = (
    "CREATE TABLE segments ("
    " name TEXT PRIMARY KEY, state INTEGER NOT NULL DEFAULT 0, size INTEGER NOT NULL,"
    " records INTEGER NOT NULL DEFAULT 0, claims INTEGER NOT NULL DEFAULT 0,"
    " created_at REAL NOT NULL) WITHOUT ROWID",
    f"CREATE INDEX segments_unfinished ON segments (created_at) WHERE {IS_UNFINISHED}",
    "CREATE TABLE ids (digest BLOB PRIMARY KEY) WITHOUT ROWID",
)
# Segments without a version of their pages' schema are from before there were versions.
_SECOND = (
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    f"INSERT INTO facts SELECT '{PAGE_SCHEMA}', {FIRST_VERSION}"
    " WHERE EXISTS (SELECT 1 FROM segments)",
)
# `published` numbers the published ones in the order in which they were: a reader that has seen
# one has seen all with lower numbers.
_THIRD = (
    "ALTER TABLE segments ADD COLUMN published INTEGER",
    "UPDATE segments SET published = found.number FROM ("
    "  SELECT name AS of, row_number() OVER (ORDER BY created_at, name) AS number"
    f" FROM segments WHERE state = {SegmentState.PUBLISHED:d}) AS found"
    " WHERE name = found.of",
    "CREATE INDEX segments_published ON segments (published) WHERE published IS NOT NULL",
)
SCHEMA = Schema(0x4D48_4D46, (_FIRST, _SECOND, _THIRD))  # "MHMF"
# Gives a segment its state; `?1` is the state, `?2` the name.
SET_STATE = (
    "UPDATE segments SET state = ?1, published = CASE"
    f" WHEN ?1 = {SegmentState.PUBLISHED:d} THEN coalesce(published,"
    "  (SELECT coalesce(max(published), 0) + 1 FROM segments WHERE published IS NOT NULL))"
    " ELSE published END WHERE name = ?2"
)
