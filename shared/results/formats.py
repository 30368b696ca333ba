"""Rows as bytes: NDJSON or CSV. Pure."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from io import StringIO
from typing import Any

import orjson

from manyhands.shared.results.choice import Row


class Format(StrEnum):
    NDJSON = "ndjson"
    CSV = "csv"


MEDIA_TYPES: Mapping[Format, str] = {
    Format.NDJSON: "application/x-ndjson",
    Format.CSV: "text/csv; charset=utf-8",
}


def beginning(form: Format, fields: Sequence[str]) -> bytes:
    """What stands before the first row."""
    return _csv_line(fields) if form is Format.CSV else b""


def encoded(form: Format, row: Row) -> bytes:
    if form is Format.CSV:
        return _csv_line(map(_cell, row.values()))
    return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)


def _csv_line(cells: Iterable[str]) -> bytes:
    line = StringIO()
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue().encode()


def _cell(value: Any) -> str:
    """Text as it is, nothing for null, and JSON for all else."""
    if value is None:
        return ""
    return value if isinstance(value, str) else orjson.dumps(value).decode()
