"""One socket: a FIFO of awaited answers, writes joined per loop turn, flow control both ways.

Answers carry no id, they come in the order of the commands. So a connection on which something
timed out, or that sent something nobody asked for, is closed and never used again: that is what
keeps answers from shifting to the wrong command.
"""

import asyncio
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from manyhands.shared.errors import (
    ConfigError,
    ConnectFailed,
    ConnectionLost,
    FaktoryError,
    ProtocolError,
)
from manyhands.shared.faktory import handshake
from manyhands.shared.faktory.codec import ErrorReply, Reply, ReplyParser
from manyhands.shared.faktory.handshake import ServerAddress, ServerHello

CONNECT_TIMEOUT_S = 10.0
# OpenSSL's verification results for a host name and for an address that do not match.
WRONG_NAME_CODES = (62, 64)
# Finds hosts that lost power on a lane that has nothing outstanding: 15 + 3 * 5 s.
KEEPALIVE_IDLE_S, KEEPALIVE_INTERVAL_S, KEEPALIVE_PROBES = 15, 5, 3
# How many answers that nobody waits for may come together, and the length of the shortest one.
ANSWERS_TOGETHER = 8
SHORTEST_ANSWER_BYTES = len(b"+OK\r\n")


class Connection(asyncio.Protocol):
    """A logged-in socket. Made by `dial`, owned by one lane.

    Whole mutable state: the transport, the unsent lines of this loop turn, the tokens of the
    commands that await an answer, how many were sent in all and up to the last one that somebody
    waits for, whether the kernel lets answers come together, the parser's rest, and the time of the
    last progress.
    """

    def __init__(self) -> None:
        self.can_send = True
        self.opened_at = self.progress_at = asyncio.get_running_loop().time()
        self.round_trip_s = 0.0
        self.server = ServerHello()
        self.lost_reason: FaktoryError | None = None
        self.awaiting: deque[Any] = deque()
        self._parser = ReplyParser()
        self._unsent: list[bytes] = []
        self._sent = self._sent_with_urgent = 0
        self._is_patient = False
        self._is_reading = True
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._on_reply: Callable[[Any, Reply], None] = _resolve
        self._on_lost: Callable[[FaktoryError], None] = _ignore_loss
        self._on_writable: Callable[[], None] = _do_nothing
        # The server speaks first, maybe before we are back from connecting.
        self._greeting: asyncio.Future[Reply] = self._loop.create_future()
        self.awaiting.append(self._greeting)

    def attach(
        self,
        on_reply: Callable[[Any, Reply], None],
        on_lost: Callable[[FaktoryError], None],
        on_writable: Callable[[], None],
    ) -> None:
        """Hand the connection to its lane, which hears at once if it was lost in between."""
        self._on_reply = on_reply
        self._on_lost = on_lost
        self._on_writable = on_writable
        if self.lost_reason is not None:
            self._loop.call_soon(on_lost, self.lost_reason)

    def send(self, line: bytes, token: Any, *, is_urgent: bool = True) -> None:
        """Queue one command; `token` comes back with its answer. Sent at the end of this turn. The
        answer to one that is not urgent may wait for others, until the next `hurry`."""
        if not self._unsent:
            self._loop.call_soon(self._write_turn)
        if not self.awaiting:
            self.progress_at = self._loop.time()
        self._unsent.append(line)
        self.awaiting.append(token)
        self._sent += 1
        if is_urgent:
            self._sent_with_urgent = self._sent

    async def greeting(self) -> Reply:
        """What the server says first, unasked."""
        return await self._greeting

    async def request(self, line: bytes) -> Reply:
        """Send and wait; for the handshake, before a lane owns the connection."""
        if self.lost_reason is not None:
            raise self.lost_reason
        answer: asyncio.Future[Reply] = self._loop.create_future()
        self.send(line, answer)
        return await answer

    def is_overdue(self, now: float, patience_s: float) -> bool:
        """True when an answer is awaited and nothing has come for `patience_s`."""
        return bool(self.awaiting) and self._is_reading and now - self.progress_at > patience_s

    def hurry(self) -> None:
        """Take whatever answers are there by now."""
        if self._is_patient and self.lost_reason is None:
            self._set_patient(False)

    def close(self, reason: str = "closed by us") -> None:
        self._lose(ConnectionLost(reason))

    def pause_reading(self) -> None:
        """Leave answers in the socket: the peer will stop sending when the path is full."""
        if self._transport is not None and self.lost_reason is None and self._is_reading:
            self._is_reading = False
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and self.lost_reason is None and not self._is_reading:
            self._is_reading = True
            self.progress_at = self._loop.time()
            self._transport.resume_reading()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        enable_keepalive(transport.get_extra_info("socket"), KEEPALIVE_IDLE_S)

    def data_received(self, data: bytes) -> None:
        self.progress_at = self._loop.time()
        awaiting = self.awaiting
        try:
            for reply in self._parser.feed(data):
                if type(reply) is ErrorReply and reply.is_refusal():
                    self._lose(ConnectionLost(f"the server said: {reply.text}"))
                    return
                if not awaiting:
                    raise ProtocolError(f"an answer to nothing: {str(reply)[:100]!r}")
                self._on_reply(awaiting.popleft(), reply)
                if self.lost_reason is not None:
                    return  # closed by what the answer said; what is kept is sent again
            if self._is_patient and not self._can_be_patient():
                self._set_patient(False)
        except ProtocolError as error:
            self._lose(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose(ConnectionLost(str(exc) if exc else "closed by the server"))

    def pause_writing(self) -> None:
        self.can_send = False

    def resume_writing(self) -> None:
        self.can_send = True
        self._on_writable()

    def _write_turn(self) -> None:
        if self._transport is not None and self.lost_reason is None:
            if self._is_patient is not (is_patient := self._can_be_patient()):
                self._set_patient(is_patient)
            self._transport.write(b"".join(self._unsent))
        self._unsent.clear()

    def _can_be_patient(self) -> bool:
        """Enough answers are owed to wait for several, and nobody waits for one of them."""
        owed = len(self.awaiting)
        return owed >= ANSWERS_TOGETHER and self._sent - owed >= self._sent_with_urgent

    def _set_patient(self, is_patient: bool) -> None:
        """A server under load answers results one by one: a system call and a turn of the loop for
        each of them would cost more than sending them did."""
        assert self._transport is not None
        self._is_patient = is_patient
        least_bytes = ANSWERS_TOGETHER * SHORTEST_ANSWER_BYTES if is_patient else 1
        sock = self._transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, least_bytes)

    def _lose(self, reason: FaktoryError) -> None:
        if self.lost_reason is not None:
            return
        self.lost_reason = reason
        self.can_send = False
        if self._transport is not None:
            self._transport.abort()
        if self._on_reply is _resolve:
            for waiter in self.awaiting:
                if not waiter.done():
                    waiter.set_exception(reason)
        self._on_lost(reason)


def _resolve(waiter: asyncio.Future[Reply], reply: Reply) -> None:
    if not waiter.done():
        waiter.set_result(reply)


def _ignore_loss(_reason: FaktoryError) -> None:
    """Before a lane owns the connection the handshake's waiter carries the error."""


def _do_nothing() -> None:
    pass


def enable_keepalive(sock: socket.socket, idle_s: int) -> None:
    """Find a peer whose host lost its power: probes begin after `idle_s` of silence."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle_s)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)


def tls_context(address: ServerAddress, ca_file: Path | None) -> ssl.SSLContext | None:
    """Verification is always on; a private CA is named by file."""
    if not address.is_tls:
        if ca_file is not None:
            raise ConfigError(
                "a CA file is set, but FAKTORY_URL is tcp://: did you mean tcp+tls://?"
            )
        return None
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"cannot read the CA file {ca_file}: {error}") from error


async def dial(
    address: ServerAddress,
    tls: ssl.SSLContext | None,
    wid: str | None = None,
    timeout_s: float = CONNECT_TIMEOUT_S,
) -> Connection:
    """Connect and log in. Raises ConnectFailed with one clear line, which names no password."""
    loop = asyncio.get_running_loop()
    connection: Connection | None = None
    try:
        async with asyncio.timeout(timeout_s):
            _, connection = await loop.create_connection(
                Connection,
                address.host,
                address.port,
                ssl=tls,
                server_hostname=address.host if tls else None,
            )
            connection.server = handshake.parse_hi(await connection.greeting(), address)
            line = handshake.hello_line(connection.server, address, wid)
            asked_at = time.monotonic()
            handshake.check_hello_answer(await connection.request(line), address)
            connection.round_trip_s = time.monotonic() - asked_at
            return connection
    except BaseException as error:
        if connection is not None:
            connection.close("the handshake failed")
        if isinstance(error, FaktoryError | OSError):
            raise explain_failure(address, error) from error
        raise


def explain_failure(address: ServerAddress, error: Exception) -> ConnectFailed:
    """Say what to do about a failed connection, and whether trying again can help."""
    if isinstance(error, ConnectFailed):
        return error
    if isinstance(error, ssl.SSLCertVerificationError):
        remedy = (
            "connect by a name that it is made out to"
            if error.verify_code in WRONG_NAME_CODES
            else "set FAKTORY_CA_FILE to the CA that signed it"
        )
        text = f"the certificate of {address} is not trusted ({error.verify_message}): {remedy}"
        return ConnectFailed(text, is_retryable=False)
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        text = f"{address} does not speak TLS ({error.reason}): use tcp:// if it has none"
        return ConnectFailed(text, is_retryable=False)
    if isinstance(error, ProtocolError):
        text = f"what answers at {address} is not a Faktory server ({error}): check host and port"
        return ConnectFailed(text, is_retryable=False)
    return ConnectFailed(_explain_network_failure(address, error), is_retryable=True)


def is_at_limit(error: Exception) -> bool:
    return "too many connections" in str(error)


def _explain_network_failure(address: ServerAddress, error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return f"{address} refuses connections: is the server running there?"
    if isinstance(error, socket.gaierror):
        return f"the host name of {address} cannot be resolved: {error.strerror}"
    if is_at_limit(error):
        return (
            f"{address} has too many connections: close other clients, "
            "or lower FAKTORY_CONNECTIONS of its workers"
        )
    if isinstance(error, TimeoutError | ConnectionLost | ConnectionResetError | ssl.SSLEOFError):
        hint = "" if address.is_tls else " (if it wants TLS, use tcp+tls://)"
        says = "says nothing" if isinstance(error, TimeoutError) else "dropped the connection"
        return f"{address} {says}{hint}"
    return f"cannot connect to {address}: {error}"
