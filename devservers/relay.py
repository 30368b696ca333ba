"""Distance: a relay that adds a round trip between a client and a server, mostly on the loopback.

Its source is go/relay. Benchmarks put it in front of Faktory, also with 0 ms, so that every
measurement pays for it.
"""

from pathlib import Path

from devservers.build import build
from devservers.processes import Child, Started, make_directory, remove_directory
from devservers.protocol_server import ProtocolServer


class Relay(Started):
    """A relay process in front of a port of `upstream`; a context manager."""

    def __init__(
        self,
        upstream_port: int,
        rtt_ms: float,
        address: str = "127.0.0.1",
        *,
        port: int = 0,
        upstream: str = "127.0.0.1",
    ) -> None:
        """Clients come to a port of this address; 0 is any that is free."""
        if rtt_ms < 0:
            raise ValueError("a round trip cannot be negative")
        self._upstream_port = upstream_port
        self._address = address
        self._wanted_port = port
        self._upstream = upstream
        self._rtt_ms = rtt_ms
        self._child: Child | None = None
        self._dir: Path | None = None
        self._port: int | None = None

    @property
    def port(self) -> int:
        if self._port is None:
            raise RuntimeError("this relay is not running")
        return self._port

    @property
    def pid(self) -> int:
        """For benchmarks, which account for the relay's own processor time."""
        if self._child is None:
            raise RuntimeError("this relay is not running")
        return self._child.pid

    def url_for(self, server: ProtocolServer) -> str:
        """Return the server's URL with the relay's port in place of its own."""
        return server.url_at(self.port)

    def start(self) -> None:
        if self._child is not None:
            raise RuntimeError("this relay is running already")
        binary = build() / "relay"
        self._dir = make_directory()
        try:
            child = self._child = Child(
                [
                    *(binary, "-listen", f"{self._address}:{self._wanted_port}"),
                    *("-to", f"{self._upstream}:{self._upstream_port}"),
                    *("-rtt", f"{self._rtt_ms}ms"),
                ],
                log=self._dir / "relay.log",
                env={},
            )
            child.wait_ready("relay", lambda: "\n" in child.log_text())
            self._port = int(child.log_text().split("\n", 1)[0])
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None
        if self._dir is not None:
            remove_directory(self._dir)
            self._dir = None
        self._port = None
