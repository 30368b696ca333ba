"""A service that speaks HTTP, as a process on a free port of the loopback.

Its port survives restart(), so that clients can be watched reconnecting.
"""

import http.client
import os
from pathlib import Path

from devservers.processes import (
    Child,
    Port,
    PortTakenError,
    Started,
    make_directory,
    remove_directory,
)

ROOT = Path(__file__).resolve().parent.parent
PORT_ATTEMPTS = 5
# Seconds for an answer; it comes at once or not at all.
ANSWER_DEADLINE = 2.0


class HttpServer(Started):
    """Subclasses say how it is launched. Its log file is in a directory that goes with it."""

    name = "HTTP server"
    # What is asked to see whether it is there; any answer but a 5xx will do.
    probe_path = "/healthz"

    def __init__(self) -> None:
        self._dir: Path | None = None
        self._port: Port | None = None
        self._child: Child | None = None

    @property
    def port(self) -> int:
        if self._port is None:
            raise RuntimeError(f"this {self.name} has not been started")
        return self._port.number

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self._require_child().pid

    @property
    def log_text(self) -> str:
        return self._require_child().log_text()

    def start(self) -> None:
        if self._child is not None:
            raise RuntimeError(f"this {self.name} is running already")
        self._dir = self._dir or make_directory()
        if self._port is not None:
            self._launch(self._dir, self._port)
            return
        for attempt in range(1, PORT_ATTEMPTS + 1):
            port = Port()
            try:
                self._launch(self._dir, port)
            except BaseException as error:
                port.release()
                if isinstance(error, PortTakenError) and attempt < PORT_ATTEMPTS:
                    continue
                self.stop()
                raise
            self._port = port
            return

    def stop(self) -> None:
        """End it for good: its port is free again."""
        if self._child is not None:
            self._child.end()
            self._child = None
        if self._port is not None:
            self._port.release()
            self._port = None
        if self._dir is not None:
            remove_directory(self._dir)
            self._dir = None

    def signal(self, number: int) -> None:
        """Send a signal to this process alone, and go on."""
        os.kill(self.pid, number)

    def wait_ended(self) -> int:
        """Wait for it to end by itself; its exit code. stop() or restart() may follow."""
        return self._require_child().wait_ended()

    def restart(self) -> None:
        """End it in an orderly way and start it again on the same port."""
        self._require_child().end()
        self._child = None
        self.start()

    def _start_child(self, port: int, log: Path) -> Child:
        raise NotImplementedError

    def _launch(self, directory: Path, port: Port) -> None:
        child = self._start_child(port.number, directory / "service.log")
        try:
            child.wait_ready(self.name, lambda: self._answers(port.number))
        except BaseException:
            if child.running():
                child.end()
            raise
        self._child = child

    def _answers(self, port: int) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_DEADLINE)
        try:
            connection.request("GET", self.probe_path)
            return connection.getresponse().status < http.HTTPStatus.INTERNAL_SERVER_ERROR
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _require_child(self) -> Child:
        if self._child is None:
            raise RuntimeError(f"this {self.name} is not running")
        return self._child
