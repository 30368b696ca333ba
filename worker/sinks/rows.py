"""Records → text and JSON that every server takes. Pure.

Pages hold what strangers wrote. Half a surrogate pair is not Unicode, and neither JSON nor a
database takes it: it becomes U+FFFD.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

import orjson

from manyhands.worker.records import PageRecord, Record
from manyhands.worker.sinks.protocol import RecordsRefused

# Of a reason, which becomes the error of a job; in characters.
LONGEST_REASON = 300
_SURROGATE = re.compile("[\ud800-\udfff]")
_NUL_IN_JSON = b"\\u0000"

_Row = TypeVar("_Row")


def rows_of(records: Sequence[Record], row_of: Callable[[Record], _Row]) -> list[_Row]:
    """Raises RecordsRefused with all records that `row_of` cannot take."""
    try:
        return [row_of(record) for record in records]
    except (TypeError, ValueError):
        raise RecordsRefused(_reasons(records, row_of)) from None


def valid_text(text: str) -> str:
    # Quick for plain ASCII, as most URLs are.
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text)
    return text


def text_without_nul(text: str) -> str:
    """For PostgreSQL, whose text cannot hold NUL: the page is worth more than that character."""
    return valid_text(text).replace("\0", "")


def json_of(value: Any) -> bytes:
    """Raises TypeError for what is not JSON, or is nested too deeply."""
    try:
        return orjson.dumps(value)
    except TypeError:
        # Maybe because of its text. Checking all of it first would cost many times as much.
        plain = asdict(value) if isinstance(value, PageRecord) else value
        return orjson.dumps(_rewritten(plain, valid_text))


def json_without_nul(value: Any) -> bytes:
    data = json_of(value)
    if _NUL_IN_JSON not in data:
        return data
    return orjson.dumps(_rewritten(orjson.loads(data), text_without_nul))


def reason_of(error: Exception) -> str:
    """One line of bounded length."""
    return (str(error).partition("\n")[0] or type(error).__name__)[:LONGEST_REASON]


def _reasons(records: Sequence[Record], row_of: Callable[[Record], object]) -> dict[int, str]:
    reasons: dict[int, str] = {}
    for position, record in enumerate(records):
        try:
            row_of(record)
        except (TypeError, ValueError) as error:
            reasons[position] = reason_of(error)
    return reasons


def _rewritten(value: Any, rewrite: Callable[[str], str]) -> Any:
    try:
        return _with_text(value, rewrite)
    except RecursionError:
        raise TypeError("nested too deeply") from None


def _with_text(value: Any, rewrite: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return rewrite(value)
    if isinstance(value, list | tuple):
        return [_with_text(one, rewrite) for one in value]
    if isinstance(value, dict):
        return {_with_text(key, rewrite): _with_text(one, rewrite) for key, one in value.items()}
    return value
