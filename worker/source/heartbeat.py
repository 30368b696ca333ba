"""The heartbeat (BEAT): a separate thread with a separate socket.

A handler that blocks the event loop must not make the server forget this worker (it does so
after 60 s), so nothing here needs the loop: it uses a blocking socket and only notifies the loop.
"""

import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from manyhands.shared.errors import ConnectFailed, ConnectionLost, FaktoryError, ProtocolError
from manyhands.shared.faktory import codec, handshake
from manyhands.shared.faktory.backoff import Backoff
from manyhands.shared.faktory.client import parse_beat_answer
from manyhands.shared.faktory.codec import ErrorReply, Reply, ReplyParser
from manyhands.shared.faktory.connection import explain_failure
from manyhands.shared.faktory.dialer import Dialer
from manyhands.shared.logs import get_logger
from manyhands.shared.memory import own_resident_bytes

INTERVAL_S = 15.0
# New lanes register with their HELLO, so a beat may be late by this much, but not by 60 s.
SOCKET_TIMEOUT_S = 10.0


@dataclass(slots=True, frozen=True)
class HeartbeatEvents:
    """What the loop is notified of; each is called in the heartbeat's thread."""

    state_wanted: Callable[[str], None]
    worker_unknown: Callable[[str], None]
    beat_took: Callable[[float], None]


class BlockingConnection:
    """A logged-in socket for one thread: send lines, read that many answers."""

    def __init__(self, dialer: Dialer) -> None:
        address = dialer.address
        self._parser = ReplyParser()
        with ExitStack() as undo:
            try:
                self._socket = socket.create_connection(
                    (address.host, address.port), SOCKET_TIMEOUT_S
                )
                undo.callback(self.close)
                if dialer.tls is not None:
                    self._socket = dialer.tls.wrap_socket(
                        self._socket, server_hostname=address.host
                    )
                hi = handshake.parse_hi(self._read(1)[0], address)
                self._socket.sendall(handshake.hello_line(hi, address, None))
                handshake.check_hello_answer(self._read(1)[0], address)
            except (OSError, FaktoryError) as error:
                raise explain_failure(address, error) from error
            undo.pop_all()

    def ask(self, lines: Sequence[bytes]) -> list[Reply]:
        try:
            self._socket.sendall(b"".join(lines))
            return self._read(len(lines))
        except OSError as error:
            raise ConnectionLost(str(error)) from error

    def close(self) -> None:
        self._socket.close()

    def _read(self, count: int) -> list[Reply]:
        replies: list[Reply] = []
        while len(replies) < count:
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionLost("closed by the server")
            replies += self._parser.feed(data)
        if len(replies) > count:
            raise ProtocolError("more answers than questions")
        return replies


class Heartbeat(threading.Thread):
    """State: its connection, and the state that this worker reports to the server."""

    def __init__(
        self, dialer: Dialer, worker_ids: Callable[[], list[str]], events: HeartbeatEvents
    ) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self.state: str | None = None
        self._dialer = dialer
        self._worker_ids = worker_ids
        self._events = events
        self._stop_asked = threading.Event()
        self._backoff = Backoff()
        self._log = get_logger("heartbeat")

    def run(self) -> None:
        while not self._stop_asked.is_set():
            try:
                self._beat_until_stopped(BlockingConnection(self._dialer))
            except ConnectFailed as error:
                # The lanes log what is wrong; here it is enough to keep trying.
                self._log.debug("no heartbeat", reason=str(error))
            except FaktoryError as error:
                self._log.warning("the heartbeat's connection was lost", reason=str(error))
            self._stop_asked.wait(self._backoff.next_delay_s())

    def stop(self) -> None:
        self._stop_asked.set()

    def _beat_until_stopped(self, connection: BlockingConnection) -> None:
        try:
            while not self._stop_asked.is_set():
                self._beat_all(connection)
                self._backoff.reset()
                self._stop_asked.wait(INTERVAL_S)
        finally:
            connection.close()

    def _beat_all(self, connection: BlockingConnection) -> None:
        wids = self._worker_ids()
        if not wids:
            return
        rss_kb = own_resident_bytes() // 1024
        lines = [codec.beat(wid, state=self.state, rss_kb=rss_kb) for wid in wids]
        started_at = time.monotonic()
        first = connection.ask(lines[:1])
        self._events.beat_took(time.monotonic() - started_at)
        for wid, reply in zip(wids, first + connection.ask(lines[1:]), strict=True):
            if isinstance(reply, ErrorReply):
                if "unknown worker" in reply.text.lower():
                    self._events.worker_unknown(wid)
            else:
                wanted = parse_beat_answer(reply)
                if wanted is not None:
                    self._events.state_wanted(wanted)
