"""Between a PostgreSQL and its clients: loses what the network may lose, above all the answer to a
COMMIT. In threads, because the clients wait in theirs."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from enum import Enum, auto

HOST = "127.0.0.1"
CHUNK = 65536
COMMIT = b"COMMIT\0"


class Fault(Enum):
    """What happens to the next COMMIT, once."""

    REQUEST_LOST = auto()
    ANSWER_LOST = auto()
    # The client's connection ends at once; the COMMIT reaches the server `late_s` after that.
    REQUEST_LATE = auto()


class PostgresRelay:
    """State: the fault that comes next, and the connections."""

    def __init__(self, port: int, late_s: float = 0.0) -> None:
        self.fault: Fault | None = None
        self.late_s = late_s
        self.faults = 0
        # New connections end at once.
        self.is_refusing = False
        self._server_port = port
        self._is_cut_off = threading.Event()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._spawn(self._accept)

    def cut_off(self) -> None:
        """From now on nothing goes through, and nobody is told."""
        self._is_cut_off.set()

    def mend(self) -> None:
        """What comes from now on goes through; what was lost meanwhile stays lost."""
        self._is_cut_off.clear()

    def cut(self) -> None:
        """End all connections of clients and server."""
        for one in self._sockets:
            _end(one)

    def close(self) -> None:
        _end(self._listener)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join()
        for one in self._sockets:
            one.close()

    def _spawn(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.is_refusing:
                    client.close()
                    continue
                server = socket.create_connection((HOST, self._server_port))
                for one in (client, server):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets += [client, server]
                self._spawn(self._pass_requests, client, server)
                self._spawn(self._pass_answers, client, server)

    def _pass_requests(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(CHUNK):
                if self._is_cut_off.is_set():
                    continue
                if COMMIT in data and self.fault in (Fault.REQUEST_LOST, Fault.REQUEST_LATE):
                    self._lose(data, client, server)
                    return
                server.sendall(data)
        _end(server)

    def _lose(self, data: bytes, client: socket.socket, server: socket.socket) -> None:
        is_late, self.fault = self.fault is Fault.REQUEST_LATE, None
        self.faults += 1
        _end(client)
        if is_late:
            time.sleep(self.late_s)
            with contextlib.suppress(OSError):
                server.sendall(data)
                # Read to its end by the other thread.
                server.shutdown(socket.SHUT_WR)
        else:
            _end(server)

    def _pass_answers(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(CHUNK):
                if self._is_cut_off.is_set():
                    continue
                if COMMIT in data and self.fault is Fault.ANSWER_LOST:
                    self.fault = None
                    self.faults += 1
                    break
                with contextlib.suppress(OSError):
                    client.sendall(data)
        _end(client)


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
