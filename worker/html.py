"""Bytes of a page → text, title and links. Pure."""

import codecs
import re
from dataclasses import dataclass

from selectolax.lexbor import LexborHTMLParser, LexborNode

from shared.errors import InvalidUrl
from shared.urls import Url, resolve_reference

MAX_LINKS = 1000
MAX_TITLE_LENGTH = 1000
# Looked through for a <meta charset>, as browsers do.
PRESCAN_BYTES = 1024
HTML_TYPES = frozenset({"", "text/html", "application/xhtml+xml"})

_CHARSET = re.compile(rb"""charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE)
_META = re.compile(rb"<meta\s[^>]{0,1000}", re.IGNORECASE)
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LAST_RESORT = "cp1252"
# Python's name of what a label means → what browsers read it with. Whatever is not here is not
# used: Python has codecs that are no charsets, and some that take quadratic time.
_CODECS = {
    "utf-8": "utf-8",
    "utf-16": "utf-16-le",
    "utf-16-le": "utf-16-le",
    "utf-16-be": "utf-16-be",
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "gb18030": "gb18030",
    "big5": "big5hkscs",
    "big5hkscs": "big5hkscs",
    "shift_jis": "cp932",
    "cp932": "cp932",
    "euc_jp": "euc_jp",
    "iso2022_jp": "iso2022_jp",
    "euc_kr": "cp949",
    "cp949": "cp949",
} | {
    name: name
    for name in (
        *(f"iso8859-{part}" for part in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)),
        *(f"cp{page}" for page in (866, 874, *range(1250, 1259))),
        "koi8-r",
        "koi8-u",
        "mac-roman",
        "mac-cyrillic",
    )
}


@dataclass(slots=True, frozen=True)
class Extract:
    """What a page says: its title, and its links as canonical URLs in their order, each once."""

    title: str | None
    links: list[str]


def is_html(content_type: str) -> bool:
    """By the header; a page without one is taken for HTML."""
    return content_type.partition(";")[0].strip().lower() in HTML_TYPES


def extract(body: bytes, content_type: str, page_url: Url) -> Extract:
    tree = LexborHTMLParser(decode(body, content_type))
    return Extract(_title(tree), _links(tree, _base(tree, page_url)))


def decode(body: bytes, content_type: str) -> str:
    """By byte order mark, header, <meta>, then UTF-8 if it is that, else windows-1252."""
    for mark, codec in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(codec, "replace")
    codec = (
        _codec(_CHARSET.search(content_type.encode("ascii", "replace")))
        or _codec_of_meta(body)
        or ("utf-8" if _is_utf8(body) else _LAST_RESORT)
    )
    return body.decode(codec, "replace")


def _codec(matched: "re.Match[bytes] | None") -> str | None:
    if matched is None:
        return None
    try:
        return _CODECS.get(codecs.lookup(matched[1].decode()).name)
    except (LookupError, ValueError):
        return None


def _codec_of_meta(body: bytes) -> str | None:
    for meta in _META.finditer(body[:PRESCAN_BYTES]):
        codec = _codec(_CHARSET.search(meta[0]))
        if codec is not None:
            # A page whose <meta> can be read as ASCII is not UTF-16, whatever it says.
            return "utf-8" if codec.startswith("utf-16") else codec
    return None


def _is_utf8(body: bytes) -> bool:
    try:
        # Not final: the last character may have been cut.
        codecs.getincrementaldecoder("utf-8")().decode(body)
    except UnicodeDecodeError:
        return False
    return True


def _title(tree: LexborHTMLParser) -> str | None:
    for node in tree.css("title"):
        if not _is_inside_svg(node):
            text = " ".join(node.text().split())[:MAX_TITLE_LENGTH]
            return text or None
    return None


def _is_inside_svg(node: LexborNode) -> bool:
    parent = node.parent
    while parent is not None:
        if parent.tag == "svg":
            return True
        parent = parent.parent
    return False


def _base(tree: LexborHTMLParser, page_url: Url) -> Url:
    node = tree.css_first("base[href]")
    reference = node.attributes.get("href") if node is not None else None
    if not reference:
        return page_url
    try:
        return resolve_reference(page_url, reference)
    except InvalidUrl:
        return page_url


def _links(tree: LexborHTMLParser, base: Url) -> list[str]:
    links: dict[str, None] = {}
    for node in tree.css("a[href], area[href]"):
        try:
            links[resolve_reference(base, node.attributes.get("href") or "").text] = None
        except InvalidUrl:
            continue
        if len(links) == MAX_LINKS:
            break
    return list(links)
