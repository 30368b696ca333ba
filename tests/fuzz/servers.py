"""What the targets that are processes of their own have in common: connections that say anything,
and beside them somebody who asks whether the service is still there."""

import contextlib
import socket
import time
from pathlib import Path

import psutil

from tests.fuzz.inputs import Pieces
from tests.fuzz.targets import Fault

# Of the connection that says anything; seconds. An answer is there by the time that the other one
# was answered, or there is none.
SEND_TIMEOUT_S = 2.0
READ_TIMEOUT_S = 0.02
# So that a piece comes by a read of its own.
PAUSE_S = 0.0005
MOST_READ = 1024 * 1024
SIGNS = (b"Traceback (most recent call last)", b'"level": "error"', b'"level": "critical"')


def say(connection: socket.socket, pieces: Pieces) -> None:
    """Until the other side has had enough."""
    connection.settimeout(SEND_TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with contextlib.suppress(OSError):
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(PAUSE_S)


def hear(connection: socket.socket) -> bytes:
    """What has been answered until now, roughly."""
    heard = b""
    connection.settimeout(READ_TIMEOUT_S)
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
        while len(heard) < MOST_READ and (piece := connection.recv(65536)):
            heard += piece
    return heard


class ServiceLog:
    """State: how far it was read."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._at = 0

    def check(self) -> None:
        """Raises Fault if the service has written of an error of its own."""
        if self._file.stat().st_size <= self._at:
            return
        with self._file.open("rb") as log:
            log.seek(self._at)
            text = log.read()
        self._at += len(text)
        if any(sign in text for sign in SIGNS):
            raise Fault(f"its log: {text[-2000:].decode(errors='replace')}")


def rss_of(pid: int) -> int:
    try:
        return psutil.Process(pid).memory_info().rss
    except psutil.NoSuchProcess:
        raise Fault("the process is gone") from None
