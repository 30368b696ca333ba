"""Who may come in: checked before any of a request's body is read. Pure.

A browser sends what a page of any site tells it to, with a content type that needs no leave: so
an Origin or Sec-Fetch-Site that is not our own is refused. And without keys a page could point
its own host name at 127.0.0.1, so the Host must then be a name of this machine.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from manyhands.api.keys import Key, Keys, Scope
from manyhands.api.problems import Problem
from manyhands.shared.http.hosts import is_own_host

OPEN_PATHS = ("/healthz", "/readyz", "/version")
ANYBODY = Key("anybody", frozenset(Scope), b"")
READING = ("GET", "HEAD", "OPTIONS")
# To start a crawl, and to give it seeds.
_CRAWL_INGEST = re.compile(r"/crawls(?:/dry-run|/[^/]+/seeds)?")


@dataclass(slots=True)
class RequestHeaders:
    """What the headers of a request say, as far as this service cares."""

    origin: str = ""
    fetch_site: str = ""
    host: str = ""
    secret: bytes = b""
    content_type: str = ""
    content_encoding: str = ""
    content_length: int | None = None


def read_headers(headers: Iterable[tuple[bytes, bytes]]) -> RequestHeaders:
    visit = RequestHeaders()
    for name, value in headers:
        read = _READERS.get(name)
        if read is not None:
            read(visit, value)
    return visit


def _read_origin(visit: RequestHeaders, value: bytes) -> None:
    visit.origin = value.decode("latin-1")


def _read_fetch_site(visit: RequestHeaders, value: bytes) -> None:
    visit.fetch_site = value.decode("latin-1")


def _read_host(visit: RequestHeaders, value: bytes) -> None:
    visit.host = value.decode("latin-1")


def _read_key(visit: RequestHeaders, value: bytes) -> None:
    visit.secret = value


def _read_authorization(visit: RequestHeaders, value: bytes) -> None:
    if value[:7].lower() == b"bearer ":
        visit.secret = visit.secret or value[7:].strip()


def _read_type(visit: RequestHeaders, value: bytes) -> None:
    visit.content_type = value.decode("latin-1").partition(";")[0].strip().lower()


def _read_encoding(visit: RequestHeaders, value: bytes) -> None:
    visit.content_encoding = value.decode("latin-1").strip().lower()


def _read_length(visit: RequestHeaders, value: bytes) -> None:
    visit.content_length = int(value) if value.isdigit() else None


_READERS = {
    b"origin": _read_origin,
    b"sec-fetch-site": _read_fetch_site,
    b"host": _read_host,
    b"x-api-key": _read_key,
    b"authorization": _read_authorization,
    b"content-type": _read_type,
    b"content-encoding": _read_encoding,
    b"content-length": _read_length,
}


class Guard:
    """State: the keys, where the service listens, and by which more names it is asked."""

    def __init__(
        self,
        keys: Keys,
        bound_to: str,
        names: Collection[str] = (),
        anybody: Key = ANYBODY,
    ) -> None:
        self._keys = keys
        self._bound_to = bound_to
        self._names = names
        self._anybody = anybody

    @property
    def has_keys(self) -> bool:
        return bool(self._keys)

    @property
    def keys(self) -> int:
        return len(self._keys)

    def admit(self, scope: Mapping[str, Any], visit: RequestHeaders) -> Key:
        """The key that this request comes with. Raises Problem."""
        path: str = scope["path"]
        _refuse_other_origins(visit)
        if path in OPEN_PATHS:
            return self._anybody
        if not self._keys:
            self._refuse_other_hosts(path, visit)
            return self._anybody
        key = self._keys.find(visit.secret) if visit.secret else None
        if key is None:
            said = "unknown API key" if visit.secret else "an API key is needed"
            raise Problem(401, f"{said}: send X-API-Key, or Authorization: Bearer")
        wanted = needed_scope(scope["method"], path)
        if wanted not in key.scopes:
            raise Problem(403, f"the key {key.name!r} has no scope {wanted}", {"scope": wanted})
        return key

    def _refuse_other_hosts(self, path: str, visit: RequestHeaders) -> None:
        # Figures are scraped under the service's own name.
        if path != "/metrics" and not is_own_host(visit.host, self._bound_to, self._names):
            said = f"without API keys only localhost is served, not {visit.host[:100]!r}"
            raise Problem(403, f"{said}: set API_KEYS, or name it in API_HOSTS")


def needed_scope(method: str, path: str) -> Scope:
    if method in READING:
        return Scope.READ
    is_ingest = path == "/jobs" or path.startswith("/jobs/") or _CRAWL_INGEST.fullmatch(path)
    return Scope.INGEST if is_ingest else Scope.ADMIN


def _refuse_other_origins(visit: RequestHeaders) -> None:
    is_foreign_page = visit.fetch_site in ("cross-site", "same-site")
    if visit.origin:
        # Not the scheme: a proxy in front of us may speak TLS where we do not.
        _, _, origin_host = visit.origin.partition("://")
        is_foreign_page = is_foreign_page or origin_host.lower() != visit.host.lower()
    if is_foreign_page:
        raise Problem(403, "requests from pages of other origins are refused")
