"""http(s) URLs: what is refused, their one canonical form, and the shard of a domain. Pure.

The canonical form is the key of a page and also what is requested: plain ASCII, a lower-case host
that is a DNS name, a dotted IPv4 or a bracketed IPv6 address, and nothing that two parsers could
read in two ways. Changing it breaks every stored key.
"""

import re
from functools import cache, lru_cache
from hashlib import blake2b
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import NamedTuple
from urllib.parse import quote

import idna
from publicsuffixlist import PublicSuffixList

from manyhands.shared.errors import InvalidUrl

MAX_URL_LENGTH = 4096
# With the white space that does not count.
MAX_REFERENCE_LENGTH = 4 * MAX_URL_LENGTH
MAX_HOST_LENGTH = 253
MAX_PORT = 65535
DEFAULT_PORTS = {"http": 80, "https": 443}
FETCH_QUEUE = "fetch"
# Hosts come back by the thousand; a hostile sender must not fill the memory with new ones.
HOSTS_REMEMBERED = 16_384
# A URL is checked and then routed.
URLS_REMEMBERED = 256

_UNUSABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_PARTS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#.*)?")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_AUTHORITY = re.compile(r"(?:\[([^\[\]]*)\]|([^:\[\]]*))(?::([0-9]*))?")
_NAME = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
_NUMBER = re.compile(r"0x([0-9a-f]*)|(0[0-7]*)|([1-9][0-9]*)")
_NUMBER_LAST = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
_STRAY_PERCENT = re.compile("%(?![0-9A-Fa-f]{2})")
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
# What browsers leave as it is, less the backslash.
_PATH_KEEPS = "%/:@!$&'()*+,;=[]|"
_QUERY_KEEPS = _PATH_KEEPS + "?{}^`"
# Bytes that can only be written as escapes.
_HIGH = "%[89A-F][0-9A-F]"
_CLEAN_PATH = r"[A-Za-z0-9._~!$&'()*+,;=:@/|\[\]-]"
# A colon in the first segment would end a scheme.
_CLEAN_RELATIVE = r"[A-Za-z0-9._~!$&'()*+,;=@/|\[\]-]"
_CLEAN_QUERY = r"[A-Za-z0-9._~!$&'()*+,;=:@/|\[\]?{}^`-]"
# Possessive (`*+`): what follows never begins with a character of what it follows, so there is
# nothing to try again. Saves a quarter of the time.
_CLEAN_NAME = r"(?:[a-z0-9_-]{1,63}+\.)*+[a-z][a-z0-9_-]{0,62}+"
_MORE_QUERY = rf"{_CLEAN_QUERY}*+(?:{_HIGH}{_CLEAN_QUERY}*+)*+"
# Most URLs: canonical already, if their host is and their path has no dot segments.
_CLEAN = re.compile(
    # A name whose last label begins with a letter cannot be an address.
    rf"(https?)://(?:({_CLEAN_NAME})|([0-9.]++))(?::([1-9][0-9]{{0,4}}))?"
    rf"(/{_CLEAN_PATH}*+(?:{_HIGH}{_CLEAN_PATH}*+)*+)"
    rf"(?:\?(?:{_CLEAN_QUERY}|{_HIGH}){_MORE_QUERY})?"
)
# Most links on the same host.
_CLEAN_REFERENCE = re.compile(
    rf"(?!//)({_CLEAN_RELATIVE}*+(?:{_HIGH}{_CLEAN_RELATIVE}*+)*+)"
    rf"(\?(?:{_CLEAN_QUERY}|{_HIGH}){_MORE_QUERY})?(?:#[!-~]*)?"
)
# Most links of all: a path or a URL that stays as it is, if it has no dot segments.
_PLAIN_LINK = re.compile(
    rf"(?:/(?!/)|https?://{_CLEAN_NAME}/){_CLEAN_PATH}*+(?:\?{_CLEAN_QUERY}++)?"
)
# Neither its host nor what becomes of it can be too long then.
_MAX_PLAIN_LENGTH = MAX_HOST_LENGTH
# What an international name begins with when it is written in ASCII (RFC 5890).
_ACE = "xn--"
# The most common references that are no pages: refused without a look at their characters.
_NO_PAGES = ("javascript:", "mailto:", "tel:", "data:")
_AROUND_A_REFERENCE = "".join(map(chr, range(0x21)))
_LINE_BREAKS = re.compile("[\t\n\r]")


class Url(NamedTuple):
    """A checked URL. `host` is without brackets; `is_address` says that it is an IP address. A
    tuple, because thousands are made in a second."""

    text: str
    scheme: str
    host: str
    port: int
    is_address: bool

    def __str__(self) -> str:
        return self.text


@lru_cache(maxsize=URLS_REMEMBERED)
def parse_url(text: str) -> Url:
    """Check a URL and give its canonical form. Raises InvalidUrl with the reason."""
    return _parse_clean(text) or _parse_any(text)


def _parse_clean(text: str) -> Url | None:
    """The short way for what is canonical already; None for all else."""
    clean = _CLEAN.fullmatch(text)
    if clean is None or len(text) > MAX_URL_LENGTH:
        return None
    scheme, name, address, port, path = clean.groups()
    number = default = DEFAULT_PORTS[scheme]
    if port is not None:
        number = int(port)
        if number > MAX_PORT or number == default:
            return None
    if "/." in path:
        return None
    if name is not None:
        is_plain = len(name) <= MAX_HOST_LENGTH and _ACE not in name
        return Url(text, scheme, name, number, False) if is_plain else None
    checked, is_address = _checked_host(address)
    return Url(text, scheme, address, number, is_address) if checked == address else None


def _parse_any(text: str) -> Url:
    _check_characters(text)
    matched = _PARTS.fullmatch(text)
    if matched is None or matched[1].lower() not in DEFAULT_PORTS:
        raise InvalidUrl(_not_http(text))
    scheme = matched[1].lower()
    host, port, is_address = _host_and_port(matched[2], scheme)
    shown_host = f"[{host}]" if ":" in host else host
    shown_port = "" if port == DEFAULT_PORTS[scheme] else f":{port}"
    query = _escaped(matched[4] or "", _QUERY_KEEPS)
    shown_query = f"?{query}" if query else ""
    canonical = f"{scheme}://{shown_host}{shown_port}{_path(matched[3])}{shown_query}"
    if len(canonical) > MAX_URL_LENGTH:
        raise InvalidUrl(f"the URL has {len(canonical)} characters, {MAX_URL_LENGTH} are allowed")
    return Url(canonical, scheme, host, port, is_address)


def resolve_reference(base: Url, reference: str) -> Url:
    """What a link or a Location header means on the page `base`; as in browsers, white space
    around it and line breaks in it do not count. Raises InvalidUrl."""
    sent, _, _ = reference.partition("#")
    if len(sent) > MAX_REFERENCE_LENGTH:
        raise InvalidUrl(f"the reference has {len(sent)} characters")
    return parse_url(_absolute(base, _LINE_BREAKS.sub("", sent.strip(_AROUND_A_REFERENCE))))


class Links:
    """`resolve_reference` for the many links of one page, most of which are canonical already and
    need no further work. State: none that changes."""

    __slots__ = ("_base", "_directory", "_origin", "_root")

    def __init__(self, base: Url) -> None:
        self._base = base
        self._origin, self._directory = _places(base)
        self._root = self._origin + "/"

    def resolve(self, reference: str) -> str:
        """The canonical text of a link. Raises InvalidUrl."""
        if (
            _PLAIN_LINK.fullmatch(reference) is not None
            and "/." not in reference
            and _ACE not in reference
            and len(reference) <= _MAX_PLAIN_LENGTH
        ):
            return self._origin + reference if reference[0] == "/" else reference
        if reference.startswith(_NO_PAGES):
            raise InvalidUrl("only http and https URLs can be fetched")
        path = reference
        if reference.startswith("http"):
            if not reference.startswith(self._root):
                return (_parse_clean(reference) or resolve_reference(self._base, reference)).text
            path = reference[len(self._origin) :]
        return self._own(path) or resolve_reference(self._base, reference).text

    def _own(self, reference: str) -> str | None:
        clean = _CLEAN_REFERENCE.fullmatch(reference)
        if clean is None:
            return None
        path, query = clean.groups("")
        # A lone query goes behind the page's own path.
        if not path or path[0] == "." or "/." in path:
            return None
        text = (self._origin if path[0] == "/" else self._directory) + path + query
        return text if len(text) <= MAX_URL_LENGTH else None


def _places(base: Url) -> tuple[str, str]:
    """Where the paths of references begin: those with a leading slash, and the others."""
    page = base.text.partition("?")[0]
    path_at = page.index("/", len(base.scheme) + len("://"))
    return page[:path_at], page[: page.rindex("/") + 1]


def _absolute(base: Url, reference: str) -> str:
    """RFC 3986, 5.2.2; dot segments are left to the canonical form."""
    if _SCHEME.match(reference):
        return reference
    if reference.startswith("//"):
        return f"{base.scheme}:{reference}"
    if not reference:
        return base.text
    if reference.startswith("?"):
        return base.text.partition("?")[0] + reference
    origin, directory = _places(base)
    return (origin if reference.startswith("/") else directory) + reference


def parse_host(text: str) -> str:
    """Check a host alone, as people write it in lists, and give the form that `Url.host` has.
    Raises InvalidUrl."""
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if bare.count(":") == 1:
        raise InvalidUrl(f"{text[:80]!r}: a host without a port is wanted")
    if ":" in bare:
        return _checked_ipv6(bare)[0]
    if not 1 <= len(text) <= MAX_HOST_LENGTH:
        raise InvalidUrl(f"a host must have 1 to {MAX_HOST_LENGTH} characters")
    return _checked_host(text)[0]


def canonical_escapes(text: str) -> str:
    """Part of a path or a query, as the canonical form writes it."""
    return _escaped(text, _QUERY_KEEPS)


@lru_cache(maxsize=HOSTS_REMEMBERED)
def registrable_domain(host: str) -> str:
    """The domain that was registered (`bbc.co.uk` of `news.bbc.co.uk`). IP addresses, single labels
    and public suffixes count as domains themselves."""
    if ":" in host or "." not in host or host.rpartition(".")[2].isdigit():
        return host
    return _public_suffixes().privatesuffix(host) or host


def shard_queue(url: str, shards: int) -> str:
    """The queue of a URL's domain: the same in every process and after every restart. Raises
    InvalidUrl."""
    return _queue_of_host(parse_url(url).host, shards)


def shard_queues(shards: int) -> list[str]:
    """The queues of all shards."""
    return [fetch_queue(shard, shards) for shard in range(shards)]


@lru_cache(maxsize=HOSTS_REMEMBERED)
def shard_of_domain(domain: str, shards: int) -> int:
    """The same in every process and after every restart."""
    digest = blake2b(domain.encode(), digest_size=8).digest()
    return int.from_bytes(digest) % shards


def shard_of_url(url: str, shards: int) -> int:
    """That of its domain. Raises InvalidUrl."""
    return shard_of_domain(registrable_domain(parse_url(url).host), shards)


def shard_number(shard: int, shards: int) -> str:
    """As it stands in the names of queues: as many digits as the last one has, at least two."""
    digits = max(2, len(str(shards - 1)))
    return f"{shard:0{digits}}"


@lru_cache(maxsize=HOSTS_REMEMBERED)
def _queue_of_host(host: str, shards: int) -> str:
    return fetch_queue(shard_of_domain(registrable_domain(host), shards), shards)


def fetch_queue(shard: int, shards: int) -> str:
    return f"{FETCH_QUEUE}.{shard_number(shard, shards)}"


@cache
def _public_suffixes() -> PublicSuffixList:
    return PublicSuffixList()


def _check_characters(text: str) -> None:
    if len(text) > MAX_URL_LENGTH:
        raise InvalidUrl(f"the URL has {len(text)} characters, {MAX_URL_LENGTH} are allowed")
    unusable = _UNUSABLE.search(text)
    if unusable is not None:
        raise InvalidUrl(
            f"the URL has the unusable character U+{ord(unusable[0]):04X} "
            f"at position {unusable.start() + 1}"
        )
    if text != text.strip():
        raise InvalidUrl("there is white space before or after the URL")


def _not_http(text: str) -> str:
    scheme = _SCHEME.match(text)
    if scheme is not None and scheme[1].lower() not in DEFAULT_PORTS and "." not in scheme[1]:
        return f"only http and https URLs can be fetched, not {scheme[1][:20]}:"
    return "not an absolute URL: http://host/path or https://host/path is wanted"


def _host_and_port(authority: str, scheme: str) -> tuple[str, int, bool]:
    if "@" in authority:
        raise InvalidUrl("the URL carries credentials (user@host): they are never sent")
    matched = _AUTHORITY.fullmatch(authority)
    if matched is None:
        raise InvalidUrl("the URL's host or port is malformed")
    bracketed, name, port = matched.groups()
    host = name if bracketed is None else bracketed
    if not host or len(host) > MAX_HOST_LENGTH:
        raise InvalidUrl(f"the URL's host must have 1 to {MAX_HOST_LENGTH} characters")
    checked, is_address = _checked_host(host) if bracketed is None else _checked_ipv6(host)
    return checked, _checked_port(port, scheme), is_address


def _checked_port(port: str | None, scheme: str) -> int:
    if not port:
        return DEFAULT_PORTS[scheme]
    if len(port) > 5 or not 1 <= int(port) <= MAX_PORT:
        raise InvalidUrl(f"the URL's port must be 1 to {MAX_PORT}")
    return int(port)


@lru_cache(maxsize=HOSTS_REMEMBERED)
def _checked_host(text: str) -> tuple[str, bool]:
    host = (text if text.isascii() else _to_ascii(text)).lower().removesuffix(".")
    # As in browsers: a host whose last label is a number is an IPv4 address or wrong.
    if _NUMBER_LAST.fullmatch(host):
        return _checked_ipv4(host), True
    if len(host) > MAX_HOST_LENGTH or not _NAME.fullmatch(host):
        raise InvalidUrl(f"illegal host name {host[:80]!r}")
    if _ACE in host and not all(map(_is_ascii_or_international, host.split("."))):
        raise InvalidUrl(f"illegal international host name {host[:80]!r}: no name is written so")
    return host, False


def _to_ascii(host: str) -> str:
    try:
        return idna.encode(host, uts46=True).decode()
    except (UnicodeError, IndexError) as error:
        raise InvalidUrl(f"illegal international host name {host[:80]!r}: {error}") from None


def _is_ascii_or_international(label: str) -> bool:
    """As browsers judge: behind xn-- stands what some name is written as, and nothing else. That
    leaves names with emoji, which IDNA 2008 has not, and which exist."""
    if not label.startswith(_ACE):
        return True
    written = label.removeprefix(_ACE)
    try:
        name = written.encode().decode("punycode")
        return (
            not name.isascii()
            and name.encode("punycode").decode() == written
            and idna.uts46_remap(name, std3_rules=False, transitional=False) == name
        )
    except (UnicodeError, ValueError, OverflowError):
        return False


def _checked_ipv4(host: str) -> str:
    """Browsers read 0x7f.1, 017700000001 and 2130706433 as addresses, and so do C libraries."""
    labels = host.split(".")
    numbers = [_number(label) for label in labels]
    *first, last = numbers
    is_right = len(labels) <= 4 and min(numbers) >= 0 and max(first, default=0) <= 255
    if not is_right or last >= 256 ** (5 - len(labels)):
        raise InvalidUrl(f"{host[:80]!r} is no IPv4 address")
    value = last
    for place, number in enumerate(first):
        value += number << (24 - 8 * place)
    return str(IPv4Address(value))


def _number(label: str) -> int:
    """-1 if it is not a number."""
    matched = _NUMBER.fullmatch(label)
    if matched is None:
        return -1
    hexadecimal, octal, decimal = matched.groups()
    if hexadecimal is not None:
        return int(hexadecimal or "0", 16)
    return int(octal, 8) if octal is not None else int(decimal)


def _checked_ipv6(text: str) -> tuple[str, bool]:
    try:
        if "%" in text:
            raise AddressValueError("a zone id means something on one machine only")
        address = IPv6Address(text)
    except AddressValueError as error:
        raise InvalidUrl(f"{text[:80]!r} is no IPv6 address for a URL: {error}") from None
    # Same machine, one form; Python's own text of a mapped address differs between versions.
    return str(address.ipv4_mapped or address), True


def _path(text: str) -> str:
    if "\\" in text:
        raise InvalidUrl("the URL has a backslash: write / or %5C")
    path = _escaped(text, _PATH_KEEPS) or "/"
    return _without_dot_segments(path) if "/." in path else path


def _without_dot_segments(path: str) -> str:
    segments = path.split("/")[1:]
    kept: list[str] = []
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)


def _escaped(text: str, keeps: str) -> str:
    """Escape what a URL may not hold, unescape what needs no escape."""
    if "%" in text:
        text = _ESCAPE.sub(_canonical_escape, _STRAY_PERCENT.sub("%25", text))
    return quote(text, safe=keeps)


def _canonical_escape(matched: "re.Match[str]") -> str:
    character = chr(int(matched[0][1:], 16))
    return character if character in _UNRESERVED else matched[0].upper()
