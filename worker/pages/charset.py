"""Bytes of a page → text, in the charset that it is written in. Pure."""

import codecs
import re

from resiliparse.parse.encoding import EncodingDetector

# Looked through for a <meta charset>, as browsers do.
PRESCAN_BYTES = 1024
# Bytes used for a guess where nothing names the charset; more do not change the result.
DETECTED_BYTES = 64 * 1024

_CHARSET = re.compile(rb"""charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE)
_META = re.compile(rb"<meta\s[^>]{0,1000}", re.IGNORECASE)
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LAST_RESORT = "cp1252"
# Python's name for a label's charset → the one that browsers use. Nothing else is used: Python has
# codecs that are not charsets, and some that take quadratic time.
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


def decode(body: bytes, content_type: str) -> str:
    """By byte order mark, header, <meta>, then UTF-8 if it is that, else by what it looks like."""
    for mark, codec in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(codec, "replace")
    codec = (
        _codec_of_match(_CHARSET.search(content_type.encode("ascii", "replace")))
        or _codec_of_meta(body)
        or _codec_of_bytes(body)
    )
    return body.decode(codec, "replace")


def _codec_of_match(matched: "re.Match[bytes] | None") -> str | None:
    return None if matched is None else _codec(matched[1].decode())


def _codec(label: str) -> str | None:
    try:
        return _CODECS.get(codecs.lookup(label).name)
    except (LookupError, ValueError):
        return None


def _codec_of_meta(body: bytes) -> str | None:
    for meta in _META.finditer(body[:PRESCAN_BYTES]):
        codec = _codec_of_match(_CHARSET.search(meta[0]))
        if codec is not None:
            # A page whose <meta> can be read as ASCII is not UTF-16, whatever it says.
            return "utf-8" if codec.startswith("utf-16") else codec
    return None


def _codec_of_bytes(body: bytes) -> str:
    if _is_utf8(body):
        return "utf-8"
    detector = EncodingDetector()
    detector.update(body[:DETECTED_BYTES])
    label = detector.encoding(html5_compatible=False)
    codec = _codec(label) if label else None
    # It is certainly not UTF-8, though its beginning may be; UTF-16 without a mark is a wild guess.
    return _LAST_RESORT if codec is None or codec.startswith("utf-") else codec


def _is_utf8(body: bytes) -> bool:
    try:
        # Not final: the last character may have been cut.
        codecs.getincrementaldecoder("utf-8")().decode(body)
    except UnicodeDecodeError:
        return False
    return True
