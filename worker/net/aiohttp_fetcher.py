"""The fetcher that comes with the worker: aiohttp, with every hop checked.

Three places hold the rule on addresses: an address in the URL is judged here before anything is
sent, the resolver gives no forbidden one, and the socket factory, which sees what is about to be
connected to, refuses whatever else might get so far.
"""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from shared.errors import InvalidUrl
from shared.jobs import utc_now
from shared.settings import FetchSettings
from shared.urls import Url, parse_url, resolve_reference
from worker.net.addresses import AddressRule
from worker.net.encodings import ACCEPTED, BoundedBody
from worker.net.fetcher import (
    REDIRECTS,
    ForbiddenAddress,
    Page,
    PermanentFetchError,
    TemporaryFetchError,
    raise_if_temporary,
)
from worker.net.resolver import CheckedResolver

ACCEPT = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.5"
# Idle connections: enough for a page's neighbours, not enough to run out of descriptors.
KEEP_ALIVE_S = 5.0
DNS_CACHE_S = 60
MAX_CONTENT_TYPE_LENGTH = 200


class AiohttpFetcher:
    """A `Fetcher`. State: one session for the process, made with the first fetch."""

    def __init__(
        self,
        settings: FetchSettings,
        rule: AddressRule,
        make_resolver: Callable[[], AbstractResolver] = aiohttp.DefaultResolver,
    ) -> None:
        self._settings = settings
        self._rule = rule
        self._make_resolver = make_resolver
        self._session: aiohttp.ClientSession | None = None

    async def fetch(self, url: str) -> Page:
        first = parse_url(url)
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                return await self._follow(first)
        except TimeoutError as error:
            reason = str(error) or f"not done in {self._settings.timeout_s:g} s"
            raise TemporaryFetchError(f"time-out: {reason}") from error
        except aiohttp.ClientConnectorCertificateError as error:
            raise PermanentFetchError(f"the certificate is not accepted: {error}") from error
        except (aiohttp.ClientError, OSError) as error:
            if isinstance(error, OSError) and error.errno == errno.EPERM:
                # By the socket factory, or by a firewall.
                raise ForbiddenAddress(f"not permitted: {error}") from error
            raise TemporaryFetchError(f"{type(error).__name__}: {error}") from error

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _follow(self, first: Url) -> Page:
        current = first
        for _ in range(self._settings.max_redirects + 1):
            answer = await self._get(first, current)
            if isinstance(answer, Page):
                return answer
            current = answer
        raise PermanentFetchError(f"more than {self._settings.max_redirects} redirects")

    async def _get(self, first: Url, current: Url) -> Page | Url:
        """One request: the page, or where it is redirected to."""
        if current.is_address and not self._rule.allows(current.host):
            raise ForbiddenAddress(
                f"{current.host} is not a public address, and not in ALLOW_NETS: not connected to"
            )
        session = self._open_session()
        async with session.get(_as_checked(current), allow_redirects=False) as response:
            location = response.headers.get("Location")
            if response.status in REDIRECTS and location is not None:
                return _redirected(current, location)
            raise_if_temporary(response.status, response.headers.get("Retry-After"), utc_now())
            body = await self._read(response)
            return Page(
                url=first.text,
                final_url=current.text,
                status=response.status,
                content_type=_plain(response.headers.get("Content-Type", "")),
                body=bytes(body.data),
                is_truncated=body.is_truncated,
                fetched_at=utc_now(),
            )

    async def _read(self, response: aiohttp.ClientResponse) -> BoundedBody:
        encoding = response.headers.get("Content-Encoding", "")
        body = BoundedBody(encoding, self._settings.max_bytes)
        async for chunk in response.content.iter_any():
            if not body.feed(chunk):
                break
        return body

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            settings = self._settings
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    # The slots bound the connections, and politeness the requests per host.
                    limit=0,
                    resolver=CheckedResolver(self._make_resolver(), self._rule),
                    ttl_dns_cache=DNS_CACHE_S,
                    keepalive_timeout=KEEP_ALIVE_S,
                    ssl=_tls(),
                    socket_factory=self._make_socket,
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={
                    "User-Agent": settings.user_agent,
                    "Accept": ACCEPT,
                    "Accept-Encoding": ACCEPTED,
                },
                timeout=aiohttp.ClientTimeout(
                    connect=settings.connect_timeout_s, sock_read=settings.read_timeout_s
                ),
                auto_decompress=False,
                # No proxy from the environment: it would connect for us, unchecked.
                trust_env=False,
            )
        return self._session

    def _make_socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, _, target = address
        if not self._rule.allows(str(target[0])):
            raise PermissionError(errno.EPERM, "not a public address")
        return socket.socket(family, kind, protocol)


def _tls() -> ssl.SSLContext:
    """Of our own, so that it is made when it is needed and SSL_CERT_FILE counts."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _as_checked(url: Url) -> URL:
    """The client's own URL type, which must read the text exactly as we did."""
    target = URL(url.text, encoded=True)
    if (target.scheme, target.raw_host, target.port) != (url.scheme, url.host, url.port):
        raise PermanentFetchError("the URL can be read in two ways")
    return target


def _plain(header: str) -> str:
    """Bytes of a header that are no text would break the job that carries it."""
    return header[:MAX_CONTENT_TYPE_LENGTH].encode("ascii", "replace").decode()


def _redirected(current: Url, location: str) -> Url:
    try:
        return resolve_reference(current, location)
    except InvalidUrl as error:
        raise PermanentFetchError(f"redirected to no usable URL: {error}") from None
