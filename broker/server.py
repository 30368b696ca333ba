"""Connections: lines in, answers out in the order of their commands, neither without bound."""

import asyncio
import hmac
import re
import secrets
import socket
import ssl
import time
from collections import deque
from collections.abc import Sequence
from math import inf
from typing import cast

import msgspec

from manyhands.broker.answers import Answer
from manyhands.broker.clients import Clients, Hello, Worker
from manyhands.broker.holders import COUNTED_BYTES, Holders
from manyhands.broker.jobs import StoredJob
from manyhands.broker.manager import FETCH_BLOCKS_S
from manyhands.broker.memory import ANSWER_BYTES, PLACE_BYTES
from manyhands.broker.queues import Queue, Waiter
from manyhands.broker.verbs import NOTHING, Verbs, bulk, error
from manyhands.shared.faktory.connection import enable_keepalive
from manyhands.shared.faktory.handshake import password_hash

HELLO_WITHIN_S = 2.0
MAX_HELLO_BYTES = 8192
# Above this, a client that does not read is not served until it has read.
WRITE_BUFFER_BYTES = 1024 * 1024
# So many commands of one connection may wait for their answers; then nothing more is read of it.
MAX_UNANSWERED = 16_384
# Seconds: so long the lines of one client are run before it is the turn of the others.
TURN_S = 0.02
# Hashing a password is slow on purpose; a salt serves all who connect within a second.
SALT_FOR_S = 1.0
HASH_ITERATIONS = 4000
KEEPALIVE_IDLE_S = 10
# What comes in one piece from a client that has more to send.
LARGE_READ_BYTES = 128 * 1024
# What a line in waiting takes beside its bytes.
LINE_BYTES = 50
TOO_MUCH = (
    "clients make the broker hold too many bytes that are unfinished or unread, and this connection"
    " the most: send shorter lines or fewer at once, or raise BROKER_MEMORY_MB"
)

# An ACK as most clients write it, which needs no JSON parser.
_plain_ack = re.compile(rb'ACK \{"jid":"([ !#-\[\]-~]+)"\}\r').fullmatch
_decode_hello = msgspec.json.Decoder(Hello).decode


class Gate:
    """The password check. State: the present salt with the hash that it asks for."""

    def __init__(self, password: str) -> None:
        self._password = password
        self._salt = ""
        self._expected = ""
        self._made_at = -inf

    def greeting(self, now: float) -> tuple[bytes, str, str]:
        """The HI line, and what must be answered to it by its salt."""
        if not self._password:
            return b'+HI {"v":2,"mh":1}\r\n', "", ""
        if now - self._made_at >= SALT_FOR_S:
            self._made_at = now
            self._salt = secrets.token_hex(8)
            self._expected = password_hash(self._password, self._salt, HASH_ITERATIONS)
        line = f'+HI {{"v":2,"i":{HASH_ITERATIONS},"s":"{self._salt}","mh":1}}\r\n'
        return line.encode(), self._salt, self._expected

    def lets_in(self, hello: Hello, salt: str, expected: str) -> bool:
        if not self._password:
            return True
        if (hello.v or 1) < 2:
            expected = password_hash(self._password, salt, 1)
        return hmac.compare_digest((hello.pwdhash or "").encode(), expected.encode())


class Server:
    """What all connections share."""

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
    """State: lines that wait for their turn, answers that wait for theirs, FETCHes that wait for
    a job (only the first of them is offered one, so that answers keep their order). All of it is
    counted in the budget of memory."""

    def __init__(self, server: Server) -> None:
        self.hello = Hello()
        self.owner: str | None = None
        self.wid = ""
        self._server = server
        self._verbs = server.verbs
        self._manager = server.verbs.manager
        self._worker: Worker | None = None
        self._is_welcome = False
        self._is_choked = False
        self._is_reading = True
        self._rest = bytearray()
        self._lines: deque[bytes] = deque()
        self._lines_bytes = 0
        # Of answers that are not sent yet; and what was sent since that was last counted.
        self.answer_bytes = 0
        self._sent_bytes = 0
        self._fetch_bytes = 0
        self._counted_bytes = 0
        self._is_given_up = False
        self._is_waiting_for_store = False
        self._ready: list[bytes] = []
        self._answers: deque[Answer] = deque()
        self._awaited: Answer | None = None
        self._fetches: deque[tuple[Answer, Sequence[Queue], float]] = deque()
        self._waiter: Waiter | None = None
        self._is_working = False
        self._is_resting = False
        self._is_ending = False

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            enable_keepalive(sock, KEEPALIVE_IDLE_S)
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
        self._fetches.clear()
        self._answers.clear()
        self._rest = bytearray()
        self._is_given_up = True
        self._server.holders.forget(self)
        if self._waiter is not None:
            self._manager.stop_waiting(self._waiter)
            self._waiter = None
        if self._is_welcome:
            self._verbs.connections -= 1
            self._server.clients.disconnected(self, time.monotonic())

    def data_received(self, data: bytes) -> None:
        if self._is_ending:
            return
        if len(data) >= LARGE_READ_BYTES:
            self._let_others_be_read()
        lines = data.split(b"\n")
        if len(lines) == 1:
            self._keep_rest(data)
            return
        if self._rest:
            self._rest += lines[0]
            lines[0] = bytes(self._rest)
            self._rest = bytearray()
        last = lines.pop()
        self._lines.extend(lines)
        self._lines_bytes += len(data) + len(lines[0]) + LINE_BYTES * len(lines)
        self._work()
        if last:
            self._keep_rest(last)
        elif self._counted_bytes or self._lines:
            self._count()

    def pause_writing(self) -> None:
        self._is_choked = True
        self._set_reading(False)
        self._count()

    def resume_writing(self) -> None:
        self._is_choked = False
        self._count()
        self._work()
        if self._waiter is not None:
            self._manager.serve(self._waiter.queues)

    # For the budget of memory

    def held_bytes(self) -> int:
        if self._is_given_up:
            return 0
        return (
            len(self._rest)
            + self._lines_bytes
            + self.answer_bytes
            + ANSWER_BYTES * len(self._answers)
            + self._fetch_bytes
            + self.unread_bytes()
        )

    def unread_bytes(self) -> int:
        return self._transport.get_write_buffer_size()

    def give_up(self) -> None:
        self._is_given_up = True
        if self._answers or self.unread_bytes():
            # It would not get to see why; and to what it asked before, another answer is due.
            self.abort()
        else:
            self._refuse_and_close(TOO_MUCH)

    def _count(self) -> None:
        self._sent_bytes = 0
        self._counted_bytes = self._server.holders.count(self)

    # For verbs

    def reply(self, data: bytes) -> None:
        if self._answers:
            answer = self.reply_later(data)
            answer.is_ready = True
        else:
            self._ready.append(data)
            if len(data) > COUNTED_BYTES:
                self.flush()

    def reply_later(self, data: bytes = b"") -> Answer:
        answer = Answer(data, self)
        self._answers.append(answer)
        return answer

    def wait_for(self, answer: Answer) -> None:
        self._awaited = answer

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
        self._rest = bytearray()
        self._transport.abort()

    # For the manager

    def can_take(self) -> bool:
        return not self._is_full() and not self._transport.is_closing()

    def deliver(self, job: StoredJob | None) -> None:
        """The FETCH in front has its answer; see what those behind it get."""
        self._waiter = None
        now = time.monotonic()
        self._answer_fetch(job)
        while self._fetches:
            _, queues, read_at = self._fetches[0]
            queues = self._manager.renewed(queues)
            can_take = not self._is_full() and not self._is_quiet()
            job = self._manager.take(queues, self, now) if can_take else None
            if job is None and now - read_at < FETCH_BLOCKS_S:
                self._wait(queues, now)
                break
            self._answer_fetch(job)
        self.flush()

    def end_fetches(self) -> None:
        """The worker is quiet: it gets nothing more, and need not wait to know."""
        if self._waiter is not None:
            self._manager.stop_waiting(self._waiter)
            self._waiter = None
        while self._fetches:
            self._answer_fetch(None)
        self.flush()

    def fetch(self, queues: Sequence[Queue]) -> None:
        now = time.monotonic()
        if not self._fetches and not self._is_quiet():
            job = self._manager.take(queues, self, now)
            if job is not None:
                self.reply(bulk(job.payload))
                job.let_go()
                return
        self._fetches.append((self.reply_later(), queues, now))
        self._fetch_bytes += PLACE_BYTES * len(queues)
        if self._waiter is None:
            self._wait(queues, now)

    def _wait(self, queues: Sequence[Queue], now: float) -> None:
        # A quiet worker waits for no queue: only for the time to pass.
        self._waiter = self._manager.wait(() if self._is_quiet() else queues, self, now)

    def _answer_fetch(self, job: StoredJob | None) -> None:
        answer, queues, _ = self._fetches.popleft()
        self._fetch_bytes -= PLACE_BYTES * len(queues)
        answer.is_ready = True
        if job is None:
            answer.fill(NOTHING)
            return
        answer.fill(bulk(job.payload))
        job.let_go()
        if len(answer.data) > COUNTED_BYTES:
            self._send()

    def _is_quiet(self) -> bool:
        return self._worker is not None and self._worker.state > 0

    # Lines

    def _keep_rest(self, data: bytes) -> None:
        self._rest += data
        limit = self._server.max_line_bytes if self._is_welcome else MAX_HELLO_BYTES
        if len(self._rest) > limit:
            self._refuse_and_close(f"a line of more than {limit} bytes")
        elif len(self._rest) > COUNTED_BYTES or self._counted_bytes:
            self._count()

    def _work(self) -> None:
        """Run the lines that are there, as long as the client reads its answers and its turn
        lasts. ACKs that follow each other are settled together."""
        if self._is_working:
            return
        self._is_working = True
        turn_ends_at = time.monotonic() + TURN_S
        lines = self._lines
        acks: list[str] = []
        is_held_up = self._is_held_up()
        while lines and not is_held_up:
            line = lines.popleft()
            if (ack := _plain_ack(line)) is not None and self._is_welcome:
                acks.append(ack[1].decode())
                continue
            if acks:
                self._verbs.acknowledge(self, acks)
                acks = []
            if line.endswith(b"\r"):
                line = line[:-1]
            self._run_line(line)
            if len(self._ready) > 64:
                self.flush()
            if lines and time.monotonic() >= turn_ends_at:
                self._is_resting = True
                asyncio.get_running_loop().call_soon(self._take_turn)
            is_held_up = self._is_held_up()
        if acks:
            self._verbs.acknowledge(self, acks)
        self._is_working = False
        self._leave_off()

    def _leave_off(self) -> None:
        """Nothing more can be run for now."""
        if not self._lines:
            self._lines_bytes = 0
        self._set_reading(not self._is_held_up())
        self.flush()
        if self._lines and not self._answers and self._manager.store.is_backed_up:
            self._wait_for_store()

    def _take_turn(self) -> None:
        """Others had their turn."""
        self._is_resting = False
        self._work()

    def _is_held_up(self) -> bool:
        """It is the turn of others, or the client does not read or sends faster than is stored.
        What concerns the whole store is a transaction of its own: thousands of them on their way
        would keep all others waiting that have something to store."""
        # The first line is `_is_full`: this is asked for every command.
        if self._is_choked or self.answer_bytes > WRITE_BUFFER_BYTES:
            return True
        if self._is_resting or len(self._answers) > MAX_UNANSWERED:
            return True
        if self._awaited is not None and not self._awaited.is_ready:
            return True
        if not self._manager.store.is_backed_up:
            return False
        # Whoever has nothing on its way to the disk may add a small command.
        return bool(self._answers) or (bool(self._lines) and len(self._lines[0]) > COUNTED_BYTES)

    def _is_full(self) -> bool:
        """There are enough answers that it has not read, or that are not ready to be read."""
        return self._is_choked or self.answer_bytes > WRITE_BUFFER_BYTES

    def _wait_for_store(self) -> None:
        """No answer will tell when it can go on."""
        if not self._is_waiting_for_store and not self._transport.is_closing():
            self._is_waiting_for_store = True
            self._manager.store.batch.when_stored.append(self._go_on)

    def _go_on(self) -> None:
        self._is_waiting_for_store = False
        self._work()

    def _let_others_be_read(self) -> None:
        """The event loop would read on as long as there is something: 8 MiB in one turn."""
        if self._is_reading and not self._transport.is_closing():
            self._transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._read_on)

    def _read_on(self) -> None:
        if self._is_reading and not self._transport.is_closing():
            self._transport.resume_reading()

    def _set_reading(self, is_reading: bool) -> None:
        if is_reading != self._is_reading and not self._transport.is_closing():
            self._is_reading = is_reading
            if is_reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _run_line(self, line: bytes) -> None:
        if not self._is_welcome:
            self._greet(line)
        elif len(line) > self._server.max_line_bytes:
            self._refuse_and_close(f"a line of more than {self._server.max_line_bytes} bytes")
        else:
            self._verbs.run(self, line)

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
        self._is_welcome = True
        self.owner, self.wid = self.hello.owner, self.hello.wid or ""
        self._worker = self._server.clients.connected(self, time.monotonic())
        self._verbs.connections += 1
        self.reply(b"+OK\r\n")

    def _refuse_and_close(self, why: str) -> None:
        self._lines.clear()
        self._rest = bytearray()
        self.reply(error(why))
        self.close()

    def flush(self) -> None:
        """Write the answers that are ready, up to the first that is not."""
        was_full = self.answer_bytes > WRITE_BUFFER_BYTES
        self._send()
        if self._transport.is_closing():
            # Nobody is there any more: what he asked for and was not yet run is not run.
            return
        if self._is_ending and not self._answers:
            self._transport.close()
        elif not self._is_reading and not self._is_working and not self._is_held_up():
            self._work()
        if was_full and self._waiter is not None and self.can_take():
            self._manager.serve(self._waiter.queues)

    def _send(self) -> None:
        answers, ready = self._answers, self._ready
        while answers and answers[0].is_ready:
            data = answers.popleft().data
            self.answer_bytes -= len(data)
            ready.append(data)
        if ready and not self._transport.is_closing():
            data = b"".join(ready)
            self._transport.write(data)
            self._sent_bytes += len(data)
        ready.clear()
        if self._sent_bytes > COUNTED_BYTES:
            self._count()
