"""Bytes that no honest client sends, at a service that others use meanwhile."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import psutil

from tests.support.http_socket import HttpSocket
from tests.support.raw_client import RawClient

MEBIBYTE = 1024 * 1024
TIMEOUT_S = 20.0


@dataclass
class Sent:
    """How an endless sender ended."""

    size: int
    was_stopped: bool
    answer: bytes


def send_without_end(port: int, start: bytes, filling: bytes, limit: int) -> Sent:
    """`start`, then `filling` again and again until the server hangs up, or to the limit."""
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as connection:
        size, was_stopped = 0, False
        try:
            connection.sendall(start)
            while size < limit:
                connection.sendall(filling)
                size += len(filling)
        except OSError:
            was_stopped = True
        answer = b""
        with contextlib.suppress(OSError):
            connection.settimeout(0 if was_stopped else 3.0)
            while data := connection.recv(65536):
                answer += data
            was_stopped = True
        return Sent(size, was_stopped, answer)


@dataclass
class Watch:
    """What others saw: the memory of the process, and how long their requests took."""

    peak_bytes: int = 0
    waits_s: list[float] = field(default_factory=list)

    @property
    def p99_s(self) -> float:
        return sorted(self.waits_s)[int(len(self.waits_s) * 0.99)]


@contextlib.contextmanager
def watched(pid: int, ask: Callable[[], None]) -> Iterator[Watch]:
    """`ask` again and again while the context is open."""
    process, watch, is_over = psutil.Process(pid), Watch(), threading.Event()

    def look() -> None:
        while not is_over.is_set():
            began = time.monotonic()
            ask()
            watch.waits_s.append(time.monotonic() - began)
            is_over.wait(0.01)

    def measure() -> None:
        while not is_over.wait(0.005):
            watch.peak_bytes = max(watch.peak_bytes, process.memory_info().rss)

    threads = [threading.Thread(target=look), threading.Thread(target=measure)]
    for thread in threads:
        thread.start()
    try:
        yield watch
    finally:
        is_over.set()
        for thread in threads:
            thread.join(TIMEOUT_S)


def get(port: int, path: str) -> None:
    """As a probe does: on a connection of its own, and any answer will do."""
    with HttpSocket(port) as http:
        http.request("GET", path, "Connection: close")
        http.answer()


def round_trip(client: RawClient) -> None:
    """As a job's: pushed, fetched and acknowledged."""
    job = {"jid": "round-trip", "jobtype": "any", "args": [], "queue": "round-trip"}
    assert client.call("PUSH " + json.dumps(job)) == "OK"
    assert client.call("FETCH round-trip")
    assert client.call('ACK {"jid":"round-trip"}') == "OK"
