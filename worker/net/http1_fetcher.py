"""Our own fetcher: an asyncio protocol around Node's parser and little else, because CPU time per
page limits a crawl.

Addresses are checked in three places: an address in the URL before anything is sent, the resolver's
answers, and once more every address right before connecting to it.
"""

import asyncio
import errno
import resource
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial

import aiohappyeyeballs

from manyhands.shared.closing import closed_on_error
from manyhands.shared.public_addresses import AddressRule
from manyhands.shared.settings import FetchSettings
from manyhands.shared.urls import DEFAULT_PORTS, MAX_REFERENCE_LENGTH, Url
from manyhands.worker.net.byte_budget import ByteBudget, Hold
from manyhands.worker.net.dns import Dns
from manyhands.worker.net.encodings import ACCEPTED
from manyhands.worker.net.fetcher import Answer, ForbiddenAddress, Phases
from manyhands.worker.net.http1 import Exchange
from manyhands.worker.net.http1_connection import Http1Connection
from manyhands.worker.net.idle import IdleConnections, Origin
from manyhands.worker.net.reasons import of_os_error, time_out
from manyhands.worker.net.resolver import CheckedResolver, Names
from manyhands.worker.net.tls import ResumingContext, make_context

ACCEPT = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.5"
# A burst of a host's pages goes over one connection; idle ones are bounded by the descriptors.
KEEP_ALIVE_S = 5.0
MAX_IDLE = 2000
# How long the first address of several is tried before the second joins (RFC 8305).
NEXT_ADDRESS_AFTER_S = 0.25


class Http1Fetcher:
    """A `HopFetcher`. State: names, TLS and idle connections, made with the first request."""

    def __init__(
        self,
        settings: FetchSettings,
        rule: AddressRule,
        make_names: Callable[[], Names] | None = None,
        budget: ByteBudget | None = None,
        *,
        keeps_unwanted: bool = False,
    ) -> None:
        """`budget` is shared by all fetchers of the process; by default this one has its own.
        `keeps_unwanted`: what is read of bodies that nobody wants is kept for archives."""
        self._settings = settings
        self._budget = budget or ByteBudget(settings.in_flight_bytes)
        self._rule = rule
        self._keeps_unwanted = keeps_unwanted
        self._make_names = make_names or (lambda: Dns(settings.dns_servers))
        self._names: CheckedResolver | None = None
        self._tls: ResumingContext | None = None
        self._idle: IdleConnections[Http1Connection] = IdleConnections(_max_idle(), KEEP_ALIVE_S)
        self._sweep: asyncio.TimerHandle | None = None

    async def get(
        self,
        url: Url,
        *,
        user_agent: str,
        max_bytes: int,
        check: Callable[[], None],
        wants_body: Callable[[int, str], bool],
    ) -> Answer:
        if url.is_address and not self._rule.allows(url.host):
            raise ForbiddenAddress(
                f"{url.host} is not a public address, and not in ALLOW_NETS: not connected to"
            )
        loop = asyncio.get_running_loop()
        now = loop.time()
        ends_at = now + self._settings.timeout_s
        request = _request(url, user_agent)
        origin = Origin(url.scheme, url.host, url.port)
        phases = Phases(is_new_connection=False)
        hold = Hold(self._budget)
        connection = self._idle.take(origin, now)
        while True:
            if connection is None:
                phases.is_new_connection = True
                connection = await self._connect(url, phases, check, ends_at)
            phases.address = connection.address
            try:
                check()
            except BaseException:
                connection.close()
                raise
            sent_at = time.perf_counter()
            exchange = await connection.send(request, wants_body, max_bytes, ends_at, hold)
            if exchange.failure is None:
                break
            hold.resize(0)
            if phases.is_new_connection or exchange.has_begun or not connection.was_lost:
                raise exchange.failure
            # An idle connection that the server closed before it saw the request.
            connection = None
        _measure(phases, sent_at, connection.head_at)
        self._keep(origin, connection, exchange, phases)
        return _answer(url, request, exchange, phases, hold)

    async def close(self) -> None:
        self._idle.close_all()
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        if self._names is not None:
            await self._names.close()
            self._names = None

    async def _connect(
        self, url: Url, phases: Phases, check: Callable[[], None], ends_at: float
    ) -> Http1Connection:
        loop = asyncio.get_running_loop()
        due_at = min(loop.time() + self._settings.connect_timeout_s, ends_at)
        began = time.perf_counter()
        try:
            async with asyncio.timeout_at(due_at) as timer:
                addresses = await self._addresses(url)
                phases.dns_s = time.perf_counter() - began
                connection = await self._open(url, addresses, check)
        except OSError as error:
            if timer.expired():
                if due_at == ends_at:
                    raise time_out("whole document", self._settings.timeout_s) from None
                raise time_out("connect", self._settings.connect_timeout_s) from None
            raise of_os_error(error) from error
        phases.connect_s = time.perf_counter() - began - phases.dns_s
        return connection

    async def _addresses(self, url: Url) -> Sequence[str]:
        if url.is_address:
            return (url.host,)
        if self._names is None:
            self._names = CheckedResolver(self._make_names(), self._rule)
        return await self._names.addresses(url.host)

    async def _open(
        self, url: Url, addresses: Sequence[str], check: Callable[[], None]
    ) -> Http1Connection:
        loop = asyncio.get_running_loop()
        is_tls = url.scheme == "https"
        if is_tls and self._tls is None:
            self._tls = make_context()
        connection = Http1Connection(
            self._settings, self._budget, loop, keeps_unwanted=self._keeps_unwanted
        )
        create = partial(
            loop.create_connection,
            lambda: connection,
            ssl=self._tls if is_tls else None,
            server_hostname=url.host if is_tls else None,
        )
        if len(addresses) == 1:
            # Nothing to race, and the loop makes a socket at less cost.
            self._judge(addresses[0])
            check()
            await create(addresses[0], url.port, flags=socket.AI_NUMERICHOST)
            return connection
        sock = await self._race(url, addresses, check)
        with closed_on_error(sock):
            await create(sock=sock)
        return connection

    async def _race(
        self, url: Url, addresses: Sequence[str], check: Callable[[], None]
    ) -> socket.socket:
        """Connected to the first that answers."""
        refusals: list[Exception] = []

        def make_socket(target: aiohappyeyeballs.AddrInfoType) -> socket.socket:
            """Called directly before each attempt to connect."""
            family, kind, protocol, _, address = target
            self._judge(str(address[0]))
            try:
                check()
            except Exception as refusal:
                # Anything but an OSError would leave other attempts under way.
                refusals.append(refusal)
                raise OSError("stopped") from refusal
            return socket.socket(family, kind, protocol)

        try:
            return await aiohappyeyeballs.start_connection(
                [_address_info(address, url.port) for address in addresses],
                happy_eyeballs_delay=NEXT_ADDRESS_AFTER_S,
                socket_factory=make_socket,
            )
        except OSError:
            if refusals:
                raise refusals[0] from None
            raise

    def _judge(self, address: str) -> None:
        if not self._rule.allows(address):
            raise PermissionError(errno.EPERM, "not a public address")

    def _keep(
        self, origin: Origin, connection: Http1Connection, exchange: Exchange, phases: Phases
    ) -> None:
        if connection.tls is not None and self._tls is not None and phases.is_new_connection:
            self._tls.remember(origin.host, connection.tls)
        if not exchange.is_reusable or not connection.is_open:
            connection.close()
            return
        loop = asyncio.get_running_loop()
        self._idle.put(origin, connection, loop.time())
        if self._sweep is None:
            self._sweep = loop.call_later(KEEP_ALIVE_S, self._close_expired)

    def _close_expired(self) -> None:
        loop = asyncio.get_running_loop()
        self._idle.close_expired(loop.time())
        self._sweep = loop.call_later(KEEP_ALIVE_S, self._close_expired) if self._idle else None


def _max_idle() -> int:
    """A quarter of the descriptors at the most."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_IDLE if soft < 0 else min(MAX_IDLE, soft // 4)


def _request(url: Url, user_agent: str) -> bytes:
    host = f"[{url.host}]" if ":" in url.host else url.host
    if url.port != DEFAULT_PORTS[url.scheme]:
        host = f"{host}:{url.port}"
    # The canonical form: behind scheme and authority, and never empty.
    target = url.text[len(url.scheme) + len("://") + len(host) :]
    return (
        f"GET {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {user_agent}\r\n"
        f"Accept: {ACCEPT}\r\nAccept-Encoding: {ACCEPTED}\r\n\r\n"
    ).encode("ascii")


def _address_info(address: str, port: int) -> aiohappyeyeballs.AddrInfoType:
    if ":" in address:
        return socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port, 0, 0)
    return socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port)


def _measure(phases: Phases, sent_at: float, head_at: float) -> None:
    phases.first_byte_s = head_at - sent_at
    phases.body_s = time.perf_counter() - head_at


def _answer(url: Url, request: bytes, exchange: Exchange, phases: Phases, hold: Hold) -> Answer:
    body, is_unwanted = exchange.body, exchange.is_unwanted
    return Answer(
        url=url.text,
        status=exchange.status,
        content_type=exchange.content_type,
        location=exchange.header(b"location"),
        retry_after=exchange.header(b"retry-after"),
        robots_tag=exchange.text(b"x-robots-tag"),
        cache_control=exchange.text(b"cache-control"),
        body=b"" if is_unwanted else body.data,
        is_truncated=body.is_truncated and not is_unwanted,
        wire_bytes=body.taken,
        phases=phases,
        request=request,
        head=exchange.head,
        hold=hold,
        is_damaged=body.is_damaged and not is_unwanted,
        refresh=_refresh(exchange),
        content_language=exchange.text(b"content-language"),
        last_modified=exchange.text(b"last-modified"),
        etag=exchange.text(b"etag"),
        unwanted=body.data if is_unwanted else b"",
        is_left_out=exchange.is_left_out,
    )


def _refresh(exchange: Exchange) -> str:
    """It has a URL in it, and travels in a job."""
    value = exchange.header(b"refresh") or ""
    return value[:MAX_REFERENCE_LENGTH].encode("utf-8", "replace").decode()
