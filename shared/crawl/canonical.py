"""Which URLs are the same page. Pure.

What is fetched is the URL as `shared.urls` writes it; what is remembered as seen is the key of its
fingerprint. Changing a rule here changes keys: raise RULES_VERSION with it.
"""

import re
from functools import lru_cache
from hashlib import blake2b

from manyhands.shared.urls import HOSTS_REMEMBERED, Url, parse_url

RULES_VERSION = 1
# Of 16 in all. Ten bytes keep two pages of a host apart: with a billion of them the chance that
# any two share a key is one in two million.
ORIGIN_KEY_BYTES = 6
PAGE_KEY_BYTES = 10
# A canonical URL has a path; the authority before it is at least one character long.
AUTHORITY_ENDS_FROM = len("http://x")

# Names in lower case: they say who brought the visitor or which visit this is, not which page.
TRACKING_PARAMETERS = frozenset(
    {
        # Advertising networks
        *("gclid", "gclsrc", "gbraid", "wbraid", "dclid", "fbclid", "msclkid", "yclid", "ysclid"),
        *("twclid", "ttclid", "igshid", "igsh", "li_fat_id", "rdt_cid", "epik", "srsltid"),
        *("zanpid", "wickedid", "irclickid", "s_kwcid", "ef_id"),
        # Newsletters and analytics
        *("mc_cid", "mc_eid", "_hsenc", "_hsmi", "__hssc", "__hstc", "__hsfp", "hsctatracking"),
        *("mkt_tok", "_ga", "_gl", "oly_anon_id", "oly_enc_id", "vero_id", "vero_conv"),
        *("ml_subscriber", "ml_subscriber_hash", "rb_clickid", "_openstat", "cx_recsid"),
        *("pk_campaign", "pk_kwd", "pk_keyword", "pk_source", "pk_medium", "pk_content", "pk_cid"),
    }
)
TRACKING_PREFIXES = ("utm_", "mtm_", "piwik_", "matomo_")
# Only names that mean nothing else: a `session_id` may be a talk at a conference.
SESSION_PARAMETERS = frozenset({"phpsessid", "jsessionid", "cfid", "cftoken", "zenid", "oscsid"})
# ASP names its sessions anew at every start of the server.
SESSION_PREFIXES = ("aspsessionid",)

_NAMES = TRACKING_PARAMETERS | SESSION_PARAMETERS
_PREFIXES = TRACKING_PREFIXES + SESSION_PREFIXES
# `sid` may be anything; forums put 32 hexadecimal digits there, new ones for every visitor that
# keeps no cookies.
_SESSION_SID = re.compile("sid=[0-9a-f]{32}", re.IGNORECASE)
_SESSION_IN_PATH = re.compile(";(?:jsessionid|phpsessid)=[^;/?]*", re.IGNORECASE)
_VERSION = b"mh-page-%d" % RULES_VERSION
# Copied for every page: that takes a third of the time that making one with its options takes.
_EMPTY = blake2b(digest_size=PAGE_KEY_BYTES, person=_VERSION)


def fingerprint(url: Url) -> str:
    """The URL without tracking and session parameters and with the others sorted. The same for all
    URLs that are taken for one page; never fetched."""
    text = url.text
    if ";" in text:
        text = _without_session_in_path(text)
    page, mark, query = text.partition("?")
    if not mark:
        return text
    kept = [part for part in query.split("&") if part and not _is_stripped(part)]
    if not kept:
        return page
    kept.sort()
    return f"{page}?{'&'.join(kept)}"


def page_key(url: Url) -> bytes:
    """What a page is known by: the keys of an origin begin alike, so that those of one host stand
    together in the store."""
    hashed = _EMPTY.copy()
    hashed.update(fingerprint(url).encode())
    return _origin_key(origin_of(url.text)) + hashed.digest()


def origin_of(text: str) -> str:
    """scheme://host[:port] of a canonical URL."""
    return text[: text.index("/", AUTHORITY_ENDS_FROM)]


def _is_stripped(parameter: str) -> bool:
    name = parameter.partition("=")[0].lower()
    return (
        name in _NAMES
        or name.startswith(_PREFIXES)
        or (name == "sid" and _SESSION_SID.fullmatch(parameter) is not None)
    )


def _without_session_in_path(text: str) -> str:
    page, mark, query = text.partition("?")
    stripped = _SESSION_IN_PATH.sub("", page)
    # Without its session a segment may have become `..`.
    return parse_url(stripped + mark + query).text if stripped != page else text


@lru_cache(maxsize=HOSTS_REMEMBERED)
def _origin_key(origin: str) -> bytes:
    return blake2b(origin.encode(), digest_size=ORIGIN_KEY_BYTES, person=_VERSION).digest()
