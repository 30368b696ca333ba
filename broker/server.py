"""Connections: lines in, answers out in the order of their commands, neither without bound."""

import asyncio
import socket
import ssl
import time
from typing import cast

import msgspec

from manyhands.broker.answers import WRITE_BUFFER_BYTES, Answers
from manyhands.broker.clients import Clients, Hello
from manyhands.broker.fetches import Fetches
from manyhands.broker.gate import Gate
from manyhands.broker.holders import COUNTED_BYTES, Holders
from manyhands.broker.lines import Lines, Reading
from manyhands.broker.turns import Turns
from manyhands.broker.verbs import Verbs, error
from manyhands.shared.faktory.connection import enable_keepalive

HELLO_WITHIN_S = 2.0
MAX_HELLO_BYTES = 8192
KEEPALIVE_IDLE_S = 10
# What comes in one piece from a client that has more to send.
LARGE_READ_BYTES = 128 * 1024
TOO_MUCH = (
    "clients make the broker hold too many bytes that are unfinished or unread, and this connection"
    " the most: send shorter lines or fewer at once, or raise BROKER_MEMORY_MB"
)

_decode_hello = msgspec.json.Decoder(Hello).decode


class Server:
    """State: the connections that are open, what all of them share, and the listening socket."""

    def __init__(self, verbs: Verbs, clients: Clients, *, password: str, max_line: int) -> None:
        self.verbs = verbs
        self.clients = clients
        self.gate = Gate(password)
        self.max_line_bytes = max_line
        self.open: set[Connection] = set()
        self.holders = Holders(verbs.manager.store.memory)
        self._listener: asyncio.Server | None = None

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None) -> int:
        """Returns the port, which the system chooses when it is 0."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            lambda: Connection(self),
            host,
            port,
            ssl=tls,
            backlog=4096,
            # Until then there is no connection that could time the HELLO.
            ssl_handshake_timeout=HELLO_WITHIN_S if tls else None,
        )
        return cast("int", self._listener.sockets[0].getsockname()[1])

    def stop_listening(self) -> None:
        if self._listener is not None:
            self._listener.close()

    def take_no_more(self) -> None:
        """What was run is answered; what was only read is not run any more."""
        for connection in list(self.open):
            connection.close()

    def close_all(self) -> None:
        for connection in list(self.open):
            connection.shut()


class Connection(asyncio.Protocol):
    """One client, from its HELLO to its end. What it sends is in `lines` and run by `turns`; what
    it gets goes through `answers`; `fetches` wait for jobs.

    State: what the client said of itself, what it was counted to hold, and whether it is about to
    be closed or given up. All that its parts hold is counted in the budget of memory."""

    def __init__(self, server: Server) -> None:
        self.hello = Hello()
        self._server = server
        self._counted_bytes = 0
        self._is_ending = False
        self._is_given_up = False

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            enable_keepalive(sock, KEEPALIVE_IDLE_S)
        verbs = self._server.verbs
        manager = verbs.manager
        self.answers = Answers(self._transport, self)
        self.fetches = Fetches(self.answers, manager.handout, manager.queues)
        self._lines = Lines()
        self._reading = Reading(self._transport)
        self._turns = Turns(
            self, self._lines, self._reading, self.answers, verbs, manager.store, self._run_line
        )
        self._server.open.add(self)
        line, self._salt, self._expected = self._server.gate.greeting(time.monotonic())
        self._transport.write(line)
        loop = asyncio.get_running_loop()
        self._hello_timer = loop.call_later(HELLO_WITHIN_S, self._transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._hello_timer.cancel()
        self._server.open.discard(self)
        self._lines.clear()
        self.answers.waiting.clear()
        self._is_given_up = True
        self._server.holders.forget(self)
        self.fetches.drop()
        if self._turns.is_welcome:
            self._server.verbs.connections -= 1
            self._server.clients.disconnected(self, time.monotonic())

    def data_received(self, data: bytes) -> None:
        if self._is_ending:
            return
        if len(data) >= LARGE_READ_BYTES:
            self._reading.let_others_be_read()
        rest = self._lines.add(data)
        if len(rest) < len(data):
            self._turns.run()
        if rest:
            self._keep_rest(rest)
        elif self._counted_bytes or self._lines.waiting:
            self.count()

    def pause_writing(self) -> None:
        self.answers.is_choked = True
        self._reading.switch(False)
        self.count()

    def resume_writing(self) -> None:
        self.answers.is_choked = False
        self.count()
        self._turns.run()
        self.fetches.read_again()

    # For the budget of memory

    def held_bytes(self) -> int:
        if self._is_given_up:
            return 0
        return self._lines.held_bytes() + self.answers.held_bytes() + self.fetches.held_bytes()

    def unread_bytes(self) -> int:
        return self.answers.unread_bytes()

    def give_up(self) -> None:
        self._is_given_up = True
        if self.answers.waiting or self.unread_bytes():
            # It would not get to see why; and to what it asked before, another answer is due.
            self.abort()
        else:
            self._refuse_and_close(TOO_MUCH)

    def count(self) -> None:
        self._counted_bytes = self._server.holders.count(self)

    # Lines

    def _keep_rest(self, data: bytes) -> None:
        length = self._lines.keep(data)
        limit = self._server.max_line_bytes if self._turns.is_welcome else MAX_HELLO_BYTES
        if length > limit:
            self._refuse_and_close(f"a line of more than {limit} bytes")
        elif length > COUNTED_BYTES or self._counted_bytes:
            self.count()

    def _run_line(self, line: bytes) -> None:
        if not self._turns.is_welcome:
            self._greet(line)
        elif len(line) > self._server.max_line_bytes:
            self._refuse_and_close(f"a line of more than {self._server.max_line_bytes} bytes")
        else:
            self._server.verbs.run(self, line)

    def _greet(self, line: bytes) -> None:
        self._hello_timer.cancel()
        try:
            if not line.startswith(b"HELLO {"):
                raise ValueError("no HELLO")
            self.hello = _decode_hello(line[6:])
        except (ValueError, RecursionError):
            self.abort()
            return
        if not self._server.gate.lets_in(self.hello, self._salt, self._expected):
            self._refuse_and_close("Invalid password")
            return
        self._turns.is_welcome = True
        worker = self._server.clients.connected(self, time.monotonic())
        self.fetches.belong_to(self.hello.owner, worker)
        self._server.verbs.connections += 1
        self.answers.reply(b"+OK\r\n")

    # Answers

    def flush(self) -> None:
        """Send what is ready, and go on with what waited for that."""
        answers = self.answers
        was_full = answers.is_full
        answers.send()
        if self._transport.is_closing():
            # Nobody is there any more: what he asked for and was not yet run is not run.
            return
        if self._is_ending and not answers.waiting:
            self._transport.close()
        elif not self._reading.is_on:
            self._turns.go_on()
        if was_full:
            self.fetches.read_again()

    def end_fetches(self) -> None:
        self.fetches.end()

    # The end

    def close(self) -> None:
        """Close when everything that was asked before has been answered."""
        self._lines.clear()
        self._is_ending = True
        self.flush()

    def shut(self) -> None:
        """Close with what is answered by now."""
        self.flush()
        self._lines.clear()
        self._transport.close()

    def abort(self) -> None:
        """Close at once: what the client has not read yet, it will not get."""
        self._lines.clear()
        self._transport.abort()

    def _refuse_and_close(self, why: str) -> None:
        self._lines.clear()
        self.answers.reply(error(why))
        self.close()
