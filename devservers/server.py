"""A server process on free ports of the loopback, whatever it speaks: start, stop, signals.

Ports and directory survive restart() and a crash, so that clients can be watched reconnecting.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from devservers.processes import (
    START_DEADLINE,
    Child,
    Port,
    PortTakenError,
    Started,
    make_directory,
    remove_directory,
)

PORT_ATTEMPTS = 5


class Server(Started):
    """Subclasses say how it is launched and when it is ready. `data_dir` is one to use and to
    leave; without it there is one that goes with the server."""

    name = "server"
    port_count = 1
    # Seconds until it must be ready.
    start_deadline = START_DEADLINE

    def __init__(self, *, data_dir: Path | None = None) -> None:
        self._given_dir = data_dir.absolute() if data_dir else None
        self._dir: Path | None = None
        self._ports: tuple[Port, ...] | None = None
        self._child: Child | None = None

    @property
    def port(self) -> int:
        return self._port_number(0)

    @property
    def data_dir(self) -> Path:
        if self._dir is None:
            raise RuntimeError(f"this {self.name} has not been started")
        return self._dir

    @property
    def pid(self) -> int:
        return self._require_child().pid

    @property
    def log_text(self) -> str:
        return self._require_child().log_text()

    def start(self) -> None:
        """Start it and wait until it is ready; after a crash with the same ports and directory."""
        if self._child is not None:
            if self._child.running():
                raise RuntimeError(f"this {self.name} is running already")
            # After a crash: what it started itself must be gone too.
            self._child.end()
            self._child = None
        if self._dir is None:
            self._dir = self._given_dir or make_directory()
        self._prepare(self._dir)
        if self._ports is not None:
            self._launch(self._ports)
            return
        for attempt in range(1, PORT_ATTEMPTS + 1):
            ports = tuple(Port() for _ in range(self.port_count))
            try:
                self._launch(ports)
            except BaseException as error:
                for port in ports:
                    port.release()
                if isinstance(error, PortTakenError) and attempt < PORT_ATTEMPTS:
                    continue
                self._clean_up()
                raise
            self._ports = ports
            return

    def stop(self) -> None:
        """End it for good: ports are free again, a directory that we made is gone."""
        if self._child is not None:
            self._child.end()
            self._child = None
        for port in self._ports or ():
            port.release()
        self._ports = None
        self._clean_up()

    def signal(self, number: int) -> None:
        """Send a signal to this process alone, and go on."""
        os.kill(self.pid, number)

    def wait_ended(self) -> int:
        """Wait for it to end by itself; its exit code. start() may follow."""
        return self._require_child().wait_ended()

    def kill(self) -> None:
        """SIGKILL this process alone, as a crash would."""
        self._require_child().kill()

    def restart(self) -> None:
        """End it in an orderly way and start it again with the same ports and directory."""
        self._require_child().end()
        self._child = None
        self.start()

    def _prepare(self, directory: Path) -> None:
        """Put into its directory what it needs there before it starts."""

    def _launch(self, ports: tuple[Port, ...]) -> None:
        numbers = [port.number for port in ports]
        child = self._start_child(numbers)
        try:
            child.wait_ready(
                self.name, lambda: self._is_ready(child, numbers[0]), self.start_deadline
            )
        except BaseException:
            if child.running():
                child.end()
            raise
        self._child = child

    def _start_child(self, ports: Sequence[int]) -> Child:
        raise NotImplementedError

    def _is_ready(self, child: Child, port: int) -> bool:
        raise NotImplementedError

    def _port_number(self, index: int) -> int:
        if self._ports is None:
            raise RuntimeError(f"this {self.name} has not been started")
        return self._ports[index].number

    def _require_child(self) -> Child:
        if self._child is None:
            raise RuntimeError(f"this {self.name} is not running")
        return self._child

    def _clean_up(self) -> None:
        if self._dir is not None and self._given_dir is None:
            remove_directory(self._dir)
            self._dir = None
