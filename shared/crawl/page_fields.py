"""The fields of a page's record: one schema, from which every sink makes its tables. Pure.

A crawl chooses fields by the names in `choice`; what it does not choose is null in its records, and
is not looked for. Fields without a choice are always there.

Every change is a new VERSION. A field may be added, and nothing else: then old tables can take the
new records, and old rows say by their own `schema` what they cannot have.
"""

from enum import Enum, StrEnum, auto
from functools import lru_cache
from typing import NamedTuple

VERSION = 2
# That of records which do not say it.
FIRST_VERSION = 1


class Kind(Enum):
    """NAME is looked for as a whole, and WORD has few different values; TEXT is prose, and RAW
    nothing that anybody looks for. JSON is an object."""

    NAME = auto()
    WORD = auto()
    TEXT = auto()
    RAW = auto()
    INTEGER = auto()
    LONG = auto()
    BOOLEAN = auto()
    TIME = auto()
    NAMES = auto()
    TEXTS = auto()
    JSON = auto()


class RecordKind(StrEnum):
    """PAGE was parsed, OTHER is an answer that is no HTML; a REDIRECT of a crawl has its target as
    `final_url`; REFUSED was not asked for, by our own rules; FAILED is everything else that is no
    page."""

    PAGE = "page"
    OTHER = "other"
    REDIRECT = "redirect"
    FAILED = "failed"
    REFUSED = "refused"


class PageField(NamedTuple):
    """`since` is the version that brought it. In the tables of an older one it can be NULL, even if
    it `is_required`."""

    name: str
    kind: Kind
    choice: str = ""
    is_required: bool = False
    since: int = VERSION


def _first(name: str, kind: Kind, choice: str = "", *, may_be_null: bool = False) -> PageField:
    return PageField(name, kind, choice, not may_be_null, FIRST_VERSION)


FIELDS = (
    _first("id", Kind.NAME),
    _first("url", Kind.NAME),
    _first("final_url", Kind.NAME),
    _first("status", Kind.INTEGER),
    _first("content_type", Kind.WORD),
    _first("title", Kind.TEXT, "title", may_be_null=True),
    _first("language", Kind.WORD, "language", may_be_null=True),
    _first("links", Kind.NAMES, "links"),
    _first("is_truncated", Kind.BOOLEAN),
    _first("fetched_at", Kind.TIME),
    _first("crawl", Kind.LONG, may_be_null=True),
    _first("visit", Kind.INTEGER, may_be_null=True),
    _first("depth", Kind.INTEGER, may_be_null=True),
    _first("is_indexable", Kind.BOOLEAN),
    PageField("schema", Kind.INTEGER, is_required=True),
    PageField("kind", Kind.WORD, is_required=True),
    PageField("reason", Kind.NAME),
    PageField("cuts", Kind.NAMES, is_required=True),
    PageField("link_texts", Kind.TEXTS, "link_texts"),
    PageField("link_rels", Kind.NAMES, "link_rels"),
    PageField("redirects", Kind.NAMES, "redirects"),
    PageField("content_language", Kind.WORD, "headers"),
    PageField("last_modified", Kind.RAW, "headers"),
    PageField("etag", Kind.RAW, "headers"),
    PageField("size", Kind.LONG, "size"),
    PageField("dns_ms", Kind.INTEGER, "timings"),
    PageField("connect_ms", Kind.INTEGER, "timings"),
    PageField("first_byte_ms", Kind.INTEGER, "timings"),
    PageField("body_ms", Kind.INTEGER, "timings"),
    PageField("content_hash", Kind.NAME, "content_hash"),
    PageField("description", Kind.TEXT, "description"),
    PageField("canonical", Kind.NAME, "canonical"),
    PageField("text", Kind.TEXT, "text"),
    PageField("full_text", Kind.TEXT, "full_text"),
    PageField("markdown", Kind.TEXT, "markdown"),
    PageField("headings", Kind.TEXTS, "headings"),
    PageField("open_graph", Kind.JSON, "open_graph"),
    PageField("json_ld", Kind.RAW, "json_ld"),
    PageField("all_headers", Kind.JSON, "all_headers"),
    PageField("simhash", Kind.NAME, "simhash"),
    PageField("html", Kind.RAW, "html"),
)
# Those of a link, in the order of `links`: the tables of edges have them.
OF_LINKS = ("links", "link_texts", "link_rels")
# Chosen by their name alone: each costs time, or many bytes.
_ON_REQUEST = frozenset(
    {
        *("full_text", "markdown", "headings", "open_graph", "json_ld", "all_headers", "simhash"),
        "html",
    }
)
CHOICES = tuple(dict.fromkeys(field.choice for field in FIELDS if field.choice))
DEFAULT = frozenset(CHOICES) - _ON_REQUEST
# What the fetch has to tell the parse stage.
OF_ARRIVAL = frozenset({"redirects", "headers", "all_headers", "size", "timings"})
# Stands for those that are chosen where nothing is said.
DEFAULT_NAME = "default"


class UnknownField(ValueError):
    """Nothing is called so."""


# All pages of a crawl have the same.
@lru_cache(maxsize=256)
def chosen(names: tuple[str, ...]) -> frozenset[str]:
    """The choices that these names mean. Raises UnknownField."""
    found: set[str] = set()
    for name in names:
        if name == DEFAULT_NAME:
            found |= DEFAULT
        elif name in CHOICES:
            found.add(name)
        else:
            known = ", ".join((DEFAULT_NAME, *CHOICES))
            raise UnknownField(f"{name!r} is no field of a record: {known}")
    return frozenset(found)
