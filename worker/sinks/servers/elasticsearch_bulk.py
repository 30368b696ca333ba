"""Requests for Elasticsearch's `_bulk`, and the meaning of its answers. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import orjson

from manyhands.shared.crawl.page_fields import FIELDS, FIRST_VERSION, VERSION, Kind
from manyhands.worker.records import PageRecord, PlainRecord, Record
from manyhands.worker.sinks.rows import LONGEST_REASON, json_of

# Of one request. Servers take 100 MB by default, some hosted ones only 10.
MOST_BODY_BYTES = 8 * 1024 * 1024
# The server takes no longer ids.
LONGEST_ID_BYTES = 512
# Of a keyword, in characters: a term has at most 32,766 bytes. A longer value is kept, but cannot
# be found by this field.
LONGEST_KEYWORD = 8191
CREATED = (200, 201)
# The id is there already: a repeat.
CONFLICT = 409
TOO_MANY_REQUESTS = 429
SERVER_ERROR = 500
# The item itself is wrong; other errors below 500 are about the index or the user.
BAD_REQUEST = 400
OF_THE_INDEX = "index_closed_exception"

_KEYWORD = {"type": "keyword", "ignore_above": LONGEST_KEYWORD}
# By default, too: what is answered is on disk.
_SETTINGS = {"index": {"translog": {"durability": "request"}}}
_NUMBER = {"type": "integer"}
_PROSE = {"type": "text"}
_KEPT_ONLY = {"type": "keyword", "index": False, "doc_values": False}
_TYPES: dict[Kind, dict[str, Any]] = {
    Kind.NAME: _KEYWORD,
    Kind.WORD: _KEYWORD,
    Kind.TEXT: _PROSE,
    Kind.RAW: _KEPT_ONLY,
    Kind.INTEGER: _NUMBER,
    Kind.LONG: {"type": "long"},
    Kind.BOOLEAN: {"type": "boolean"},
    Kind.TIME: {"type": "date"},
    Kind.NAMES: _KEYWORD,
    Kind.TEXTS: _PROSE,
    Kind.JSON: {"type": "object", "enabled": False},
}
_PAGES_MAPPING: dict[str, Any] = {
    "dynamic": False,
    "_meta": {"page_schema": VERSION},
    "properties": {field.name: _TYPES[field.kind] for field in FIELDS},
}
PAGES_INDEX = {"settings": _SETTINGS, "mappings": _PAGES_MAPPING}
# What an index of an older release lacks; it takes its own fields once more.
LATER_FIELDS = {name: _PAGES_MAPPING[name] for name in ("_meta", "properties")}
# The fields of a body are mapped as they come. Not as dates: the first text that looks like one
# would make the server refuse all others in this field.
RECORDS_INDEX = {
    "settings": _SETTINGS,
    "mappings": {
        "date_detection": False,
        "properties": {"id": _KEYWORD, "body": {"type": "object"}},
    },
}


class Fate(Enum):
    """Of one document."""

    DONE = auto()
    AGAIN = auto()
    REFUSED = auto()
    # By the index or for the user: no document gets in.
    BARRED = auto()


@dataclass(slots=True, frozen=True)
class Document:
    """`name` is the index and the id; `lines` are what a request has of it."""

    name: tuple[str, str]
    lines: bytes


@dataclass(slots=True, frozen=True)
class Indices:
    """Where each kind of record goes."""

    pages: str
    records: str


# A document with its place in the batch.
Placed = tuple[int, Document]


def indices_of(prefix: str) -> Indices:
    return Indices(pages=f"{prefix}-pages", records=f"{prefix}-records")


def oldest_schema(answer: Any) -> int:
    """Of the indices behind a name, as they are mapped. Raises ValueError for another answer."""
    if not isinstance(answer, dict):
        raise ValueError("the answer does not come from Elasticsearch")
    versions = [
        index.get("mappings", {}).get("_meta", {}).get("page_schema", FIRST_VERSION)
        for index in answer.values()
    ]
    return min(versions, default=FIRST_VERSION)


def document_of(record: Record, indices: Indices) -> Document:
    """Raises TypeError or ValueError for what can never be a document."""
    if not record.id:
        raise ValueError("its id is empty")
    if len(record.id.encode("utf-8", "replace")) > LONGEST_ID_BYTES:
        raise ValueError(f"its id is longer than {LONGEST_ID_BYTES} bytes")
    if isinstance(record, PageRecord):
        index, source = indices.pages, json_of(record)
    elif isinstance(record, PlainRecord):
        # The server knows a field as an object or as a value, not as both.
        body = record.body if isinstance(record.body, dict) else {"value": record.body}
        index, source = indices.records, json_of({"id": record.id, "body": body})
    else:
        raise TypeError(f"there is no index for {type(record).__name__}")
    # `create`: an existing document stays as it is.
    action = orjson.dumps({"create": {"_index": index, "_id": record.id}})
    return Document((index, record.id), b"%b\n%b\n" % (action, source))


def requests_of(documents: Sequence[Placed]) -> Iterator[list[Placed]]:
    """As many as one request may have; a document that is too large goes alone."""
    together: list[Placed] = []
    size = 0
    for placed in documents:
        lines = placed[1].lines
        if together and size + len(lines) > MOST_BODY_BYTES:
            yield together
            together, size = [], 0
        together.append(placed)
        size += len(lines)
    if together:
        yield together


def fates_of(answer: Any, count: int) -> list[tuple[Fate, str]]:
    """Of `count` documents in order, with reasons. `answer` is that to a `_bulk`. Raises ValueError
    when it is something else."""
    if not isinstance(answer, dict) or "errors" not in answer:
        raise ValueError("the answer does not come from Elasticsearch")
    if not answer["errors"]:
        return [(Fate.DONE, "")] * count
    fates = [_fate(item["create"]) for item in answer["items"]]
    if len(fates) != count:
        raise ValueError(f"an answer for {len(fates)} documents to a request with {count}")
    return fates


def _fate(item: Mapping[str, Any]) -> tuple[Fate, str]:
    status = item["status"]
    if status in CREATED or status == CONFLICT:
        return Fate.DONE, ""
    reason = reason_in(item, status)
    if status == TOO_MANY_REQUESTS or status >= SERVER_ERROR:
        return Fate.AGAIN, reason
    if status == BAD_REQUEST and item.get("error", {}).get("type") != OF_THE_INDEX:
        return Fate.REFUSED, reason
    return Fate.BARRED, reason


def reason_in(answer: Any, status: int) -> str:
    """What a server says of its error, on one line: an item, or the answer to a request."""
    error = answer.get("error") if isinstance(answer, dict) else None
    if not isinstance(error, dict):
        return f"status {status}"
    told = [str(error.get("type", "error")), str(error.get("reason", ""))]
    cause = error.get("caused_by")
    if isinstance(cause, dict) and cause.get("reason"):
        told.append(str(cause["reason"]))
    return " ".join(": ".join(part for part in told if part).split())[:LONGEST_REASON]
