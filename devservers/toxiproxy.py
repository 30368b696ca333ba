"""Faults in the network: a Toxiproxy server and the proxies in it, driven over its HTTP API.

Tests put a Proxy between a client and a FaktoryServer, and slow it, stall it or cut it.
"""

import itertools
import json
from pathlib import Path
from typing import Any, Literal
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from devservers.build import build
from devservers.processes import (
    Child,
    Port,
    PortTakenError,
    Started,
    make_directory,
    remove_directory,
)
from devservers.protocol_server import ProtocolServer

PORT_ATTEMPTS = 5
# Seconds for a call of the API, which is local and answers in milliseconds.
API_DEADLINE = 5.0
# An HTTP proxy in the caller's environment must not get to see calls to the loopback.
_http = build_opener(ProxyHandler({}))


class Toxiproxy(Started):
    """A Toxiproxy process; a context manager."""

    def __init__(self) -> None:
        self._child: Child | None = None
        self._dir: Path | None = None
        self._port: Port | None = None
        self._proxies: list[Proxy] = []
        self._names = itertools.count(1)

    @property
    def api_url(self) -> str:
        if self._port is None:
            raise RuntimeError("this Toxiproxy has not been started")
        return f"http://127.0.0.1:{self._port.number}"

    def start(self) -> None:
        if self._child is not None:
            raise RuntimeError("this Toxiproxy is running already")
        binary = build() / "toxiproxy"
        self._dir = make_directory()
        for attempt in range(1, PORT_ATTEMPTS + 1):
            self._port = Port()
            try:
                self._launch(binary, self._dir, self._port.number)
            except BaseException as error:
                if isinstance(error, PortTakenError) and attempt < PORT_ATTEMPTS:
                    self._port.release()
                    continue
                self.stop()
                raise
            return

    def stop(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None
        for proxy in self._proxies:
            proxy.release()
        self._proxies.clear()
        if self._port is not None:
            self._port.release()
            self._port = None
        if self._dir is not None:
            remove_directory(self._dir)
            self._dir = None

    def proxy(self, upstream_port: int) -> "Proxy":
        """Make a proxy, enabled and without toxics, to a port of 127.0.0.1."""
        made = Proxy(self, f"proxy-{next(self._names)}", upstream_port)
        self._proxies.append(made)
        return made

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Call the HTTP API and return what it answers, parsed."""
        request = Request(
            self.api_url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with _http.open(request, timeout=API_DEADLINE) as response:
                text = response.read()
        except HTTPError as error:
            with error:
                answer = error.read().decode(errors="replace").strip()
            raise RuntimeError(f"Toxiproxy: {method} {path}: {error.code} {answer}") from None
        return json.loads(text) if text else None

    def _launch(self, binary: Path, directory: Path, port: int) -> None:
        child = Child(
            [binary, "-host", "127.0.0.1", "-port", str(port)],
            log=directory / "toxiproxy.log",
            env={},
        )
        self._child = child
        try:
            child.wait_ready("Toxiproxy", self._answers)
        except PortTakenError:
            self._child = None  # wait_ready has ended it
            raise

    def _answers(self) -> bool:
        try:
            self.call("GET", "/version")
        except OSError:
            return False
        return True


class Proxy:
    """One listening port in front of one upstream port."""

    def __init__(self, toxiproxy: Toxiproxy, name: str, upstream_port: int) -> None:
        self._toxiproxy = toxiproxy
        self._path = f"/proxies/{name}"
        self._reserved = Port()
        self.port = self._reserved.number
        try:
            toxiproxy.call(
                "POST",
                "/proxies",
                {
                    "name": name,
                    "listen": f"127.0.0.1:{self.port}",
                    "upstream": f"127.0.0.1:{upstream_port}",
                    "enabled": True,
                },
            )
        except BaseException:
            self._reserved.release()
            raise

    def url_for(self, server: ProtocolServer) -> str:
        """Return the server's URL with this proxy's port in place of its own."""
        return server.url_at(self.port)

    def add_toxic(
        self,
        kind: str,
        name: str | None = None,
        stream: Literal["upstream", "downstream"] = "downstream",
        **attributes: float,
    ) -> None:
        """Add a toxic, e.g. add_toxic("latency", latency=100); downstream is towards the client.

        Toxiproxy's times are in milliseconds, its sizes in bytes, its rates in KB/s.
        """
        body: dict[str, Any] = {"type": kind, "stream": stream, "attributes": attributes}
        if name is not None:
            body["name"] = name
        self._toxiproxy.call("POST", f"{self._path}/toxics", body)

    def remove_toxics(self) -> None:
        for toxic in self._toxiproxy.call("GET", f"{self._path}/toxics"):
            self._toxiproxy.call("DELETE", f"{self._path}/toxics/{toxic['name']}")

    def disable(self) -> None:
        """Cut all connections and refuse new ones."""
        self._toxiproxy.call("POST", self._path, {"enabled": False})

    def enable(self) -> None:
        self._toxiproxy.call("POST", self._path, {"enabled": True})

    def cut(self) -> None:
        """Cut all connections at once; new ones are accepted a few milliseconds later."""
        self.disable()
        self.enable()

    def release(self) -> None:
        """Give the port back; Toxiproxy.stop() calls it."""
        self._reserved.release()
