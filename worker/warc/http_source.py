"""A file behind a URL, as a stream: requested from an offset on, and again from where a connection
was lost.

The address rule of every fetch applies here, too, for every redirect and at the moment of
connecting: a client that may post jobs must not be able to read our own network.
"""

import asyncio
import concurrent.futures
import errno
import re
import socket
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any, NamedTuple, TypeVar

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from manyhands.shared.closing import closed_on_error
from manyhands.shared.errors import InvalidUrl
from manyhands.shared.jobs import utc_now
from manyhands.shared.public_addresses import AddressRule
from manyhands.shared.settings import FetchSettings
from manyhands.shared.urls import Url, resolve_reference
from manyhands.shared.warc_places import UrlAt
from manyhands.worker.net.dns import Dns
from manyhands.worker.net.fetcher import (
    REDIRECTS,
    FetchError,
    ForbiddenAddress,
    PermanentFetchError,
    TemporaryFetchError,
    raise_if_temporary,
)
from manyhands.worker.net.reasons import of_os_error, time_out
from manyhands.worker.net.resolver import CheckedResolver, Names
from manyhands.worker.warc.streams import Aborted

# How much is read ahead of the decoder; twice as much pauses the sender.
BUFFER_BYTES = 512 * 1024
# In a row, without a byte in between; the first after this many seconds, the others later.
RESUMES = 5
RESUME_AFTER_S = 0.2

_CONTENT_RANGE = re.compile(r"\s*bytes\s+(\d+)-\d+/(\d+|\*)\s*", re.I)

T = TypeVar("T")


class HttpFiles:
    """State: the session and its names, made with the first file."""

    def __init__(
        self,
        settings: FetchSettings,
        rule: AddressRule,
        make_names: Callable[[], Names] | None = None,
    ) -> None:
        self._settings = settings
        self._rule = rule
        self._make_names = make_names or (lambda: Dns(settings.dns_servers))
        self._session: aiohttp.ClientSession | None = None

    def stream(self, place: UrlAt) -> "HttpStream":
        """Called in the event loop's thread. No request is sent before the first read."""
        if self._session is None:
            self._session = self._make_session()
        return HttpStream(self, place, asyncio.get_running_loop())

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def read(self, answer: aiohttp.ClientResponse) -> bytes:
        """More of the file, empty at its end. It must come in time, whatever else does: a server
        may send chunk extensions or trailers for ever."""
        try:
            async with asyncio.timeout(self._settings.read_timeout_s):
                return await answer.content.readany()
        except TimeoutError as error:
            raise TemporaryFetchError("nothing came for too long") from error
        except (aiohttp.ClientError, OSError) as error:
            raise translated(error) from error

    async def open(self, url: Url, offset: int) -> aiohttp.ClientResponse:
        """The answer to a request from an offset on, whatever its status; redirects are followed.
        Raises a FetchError."""
        for _ in range(self._settings.max_redirects + 1):
            answer = await self._request(url, offset)
            location = answer.headers.get("Location")
            if answer.status not in REDIRECTS or location is None:
                return answer
            answer.close()
            try:
                url = resolve_reference(url, location)
            except InvalidUrl as error:
                raise PermanentFetchError(f"redirected to no usable URL: {error}") from None
        raise PermanentFetchError(f"more than {self._settings.max_redirects} redirects")

    async def _request(self, url: Url, offset: int) -> aiohttp.ClientResponse:
        if url.is_address and not self._rule.allows(url.host):
            raise ForbiddenAddress(
                f"{url.host} is not a public address, and not in ALLOW_NETS: not connected to"
            )
        assert self._session is not None
        headers = {"Range": f"bytes={offset}-"} if offset else {}
        try:
            # Within the time that a page may take to begin; how long the file takes is unknown.
            async with asyncio.timeout(self._settings.timeout_s):
                return await self._session.get(
                    URL(url.text, encoded=True), headers=headers, allow_redirects=False
                )
        except FetchError:
            raise
        except TimeoutError:
            raise time_out("answer", self._settings.timeout_s) from None
        except (aiohttp.ClientError, OSError) as error:
            raise translated(error) from error

    def _make_session(self) -> aiohttp.ClientSession:
        settings = self._settings
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0,
                force_close=True,
                use_dns_cache=False,
                resolver=_Resolver(CheckedResolver(self._make_names(), self._rule)),
                socket_factory=self._socket,
            ),
            # We unpack files ourselves: no answer is unpacked in transit.
            headers={"User-Agent": settings.user_agent, "Accept-Encoding": "identity"},
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=BUFFER_BYTES,
            timeout=aiohttp.ClientTimeout(
                total=None,
                sock_connect=settings.connect_timeout_s,
                sock_read=settings.read_timeout_s,
            ),
        )

    def _socket(self, target: Any) -> socket.socket:
        """Called directly before each attempt to connect, as the last check."""
        family, kind, protocol, _, address = target
        if not self._rule.allows(str(address[0]).partition("%")[0]):
            raise OSError(errno.EPERM, "an address that may not be connected to")
        return socket.socket(family, kind, protocol)


class HttpStream:
    """A `ByteStream`. State: its position, the answer being read, the file's identity from the
    first request, and what the reading thread waits for."""

    def __init__(self, files: HttpFiles, place: UrlAt, loop: asyncio.AbstractEventLoop) -> None:
        self._files = files
        self._place = place
        self._loop = loop
        self._position = 0
        self._answer: aiohttp.ClientResponse | None = None
        self._is_at_end = False
        self._version: _Version | None = None
        self._waits_for: concurrent.futures.Future[Any] | None = None
        self._is_aborted = False

    def read(self) -> bytes:
        return self._in_loop(self._read())

    def seek(self, offset: int) -> None:
        if offset != self._position or self._is_at_end:
            self.close()
            self._position = offset
            self._is_at_end = False

    def close(self) -> None:
        if self._answer is not None:
            self._loop.call_soon_threadsafe(self._answer.close)
            self._answer = None

    def abort(self) -> None:
        self._is_aborted = True
        if self._waits_for is not None:
            self._waits_for.cancel()

    def _in_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        self._waits_for = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        if self._is_aborted:
            self._waits_for.cancel()
        try:
            found: T = self._waits_for.result()
        except concurrent.futures.CancelledError:
            raise Aborted from None
        return found

    async def _read(self) -> bytes:
        """Repeats lost requests, from where each was."""
        resumes = 0
        while True:
            try:
                return await self._next()
            except TemporaryFetchError as error:
                self._drop()
                resumes += 1
                if resumes > RESUMES or error.retry_after_s is not None:
                    raise _told(self._place, error) from error
                await asyncio.sleep(RESUME_AFTER_S * 2 ** (resumes - 1))
            except PermanentFetchError as error:
                self._drop()
                raise _told(self._place, error) from error

    async def _next(self) -> bytes:
        if self._answer is None and not self._is_at_end:
            await self._open()
        if self._is_at_end or self._answer is None:
            return b""
        data = await self._files.read(self._answer)
        self._position += len(data)
        if not data:
            self._is_at_end = True
            self._drop()
        return data

    async def _open(self) -> None:
        answer = await self._files.open(self._place.url, self._position)
        with closed_on_error(answer):
            await self._accept(answer)
        self._answer = None if self._is_at_end else answer

    async def _accept(self, answer: aiohttp.ClientResponse) -> None:
        raise_if_temporary(answer.status, answer.headers.get("Retry-After"), utc_now())
        if answer.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and self._position:
            # The last record ended with the file.
            self._is_at_end = True
            return
        if answer.status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
            raise PermanentFetchError(f"the server answered {answer.status}")
        begins_at, length = _range_of(answer)
        self._check_version(_Version(answer.headers.get("ETag"), length))
        if begins_at == self._position:
            return
        if answer.status == HTTPStatus.PARTIAL_CONTENT:
            raise PermanentFetchError("the server answered with another part of the file")
        await _skip(answer, self._position)

    def _check_version(self, version: "_Version") -> None:
        """Parts of two files must not be taken for one."""
        if self._version is not None and self._version.is_other_than(version):
            raise PermanentFetchError("the file was changed while it was read")
        self._version = version

    def _drop(self) -> None:
        if self._answer is not None:
            self._answer.close()
            self._answer = None


class _Version(NamedTuple):
    """None where an answer did not say."""

    tag: str | None
    length: int | None

    def is_other_than(self, later: "_Version") -> bool:
        return any(
            known is not None and said is not None and known != said
            for known, said in zip(self, later, strict=True)
        )


class _Resolver(AbstractResolver):
    """Our names for aiohttp."""

    def __init__(self, names: Names) -> None:
        self._names = names

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        del family
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in await self._names.addresses(host)
        ]

    async def close(self) -> None:
        await self._names.close()


def translated(error: Exception) -> FetchError:
    """What aiohttp and sockets raise → ours."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        certificate = error.certificate_error
        return of_os_error(certificate) if isinstance(certificate, OSError) else _lost(error)
    if isinstance(error, aiohttp.ClientConnectorError):
        return of_os_error(error.os_error)
    if isinstance(error, TimeoutError):
        return TemporaryFetchError("time-out: nothing came", reason="time-out: read")
    if isinstance(error, OSError) and not isinstance(error, aiohttp.ClientError):
        return of_os_error(error)
    return _lost(error)


def _lost(error: Exception) -> TemporaryFetchError:
    return TemporaryFetchError(
        f"the connection was lost: {error or type(error).__name__}", reason="connection closed"
    )


def _told(place: UrlAt, error: FetchError) -> FetchError:
    message = f"{place}: {error}"
    if isinstance(error, TemporaryFetchError):
        return TemporaryFetchError(message, error.retry_after_s, reason=error.reason)
    return PermanentFetchError(message, reason=error.reason)


def _range_of(answer: aiohttp.ClientResponse) -> tuple[int, int | None]:
    """Where an answer begins in the file, and how long the file is."""
    if answer.status == HTTPStatus.OK:
        return 0, answer.content_length
    found = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    if found is None:
        raise PermanentFetchError("the server does not say which part of the file it sends")
    return int(found[1]), None if found[2] == "*" else int(found[2])


async def _skip(answer: aiohttp.ClientResponse, count: int) -> None:
    """Skip the beginning that a server without range support sends."""
    try:
        while count:
            piece = await answer.content.read(min(count, BUFFER_BYTES))
            if not piece:
                return
            count -= len(piece)
    except TimeoutError as error:
        raise TemporaryFetchError("nothing came for too long") from error
    except (aiohttp.ClientError, OSError) as error:
        raise translated(error) from error
