"""What the two servers of Faktory's protocol have in common: ports, data, start, stop and kill.

Ports and data survive restart() and kill(), so that clients can be watched reconnecting.
"""

import os
import socket
import ssl
from pathlib import Path
from urllib.parse import quote

import trustme

from devservers.processes import (
    Child,
    Port,
    PortTakenError,
    Started,
    make_directory,
    remove_directory,
)

PORT_ATTEMPTS = 5
# Seconds for the greeting; it comes at once or not at all.
GREETING_DEADLINE = 2.0


class ProtocolServer(Started):
    """A server process on free ports of the loopback. Subclasses say how it is launched."""

    name = "server"
    web_scheme = "http"

    def __init__(
        self, *, password: str | None = None, tls: bool = False, data_dir: Path | None = None
    ) -> None:
        # Faktory reads the password from a file and strips it; an empty one would mean none.
        if password is not None and (not password or password != password.strip()):
            raise ValueError("a password is not empty and has no blanks around it")
        self.password = password
        self.tls = tls
        self._given_dir = data_dir.absolute() if data_dir else None
        self._dir: Path | None = None
        self._ports: tuple[Port, Port] | None = None
        self._child: Child | None = None

    @property
    def host(self) -> str:
        """The name that the certificate is checked against, where there is one."""
        return "localhost" if self.tls else "127.0.0.1"

    @property
    def port(self) -> int:
        return self._require_ports()[0].number

    @property
    def url(self) -> str:
        return self.url_at(self.port)

    @property
    def web_url(self) -> str:
        """Its pages; with a password they want it by HTTP basic authentication, any name."""
        return f"{self.web_scheme}://{self.host}:{self._require_ports()[1].number}"

    @property
    def ca_file(self) -> Path | None:
        return self.data_dir / "conf" / "ca.pem" if self.tls else None

    @property
    def data_dir(self) -> Path:
        if self._dir is None:
            raise RuntimeError(f"this {self.name} has not been started")
        return self._dir

    @property
    def pid(self) -> int:
        if self._child is None:
            raise RuntimeError(f"this {self.name} is not running")
        return self._child.pid

    def url_at(self, port: int) -> str:
        """Return the URL with the port of something that stands in front of this server."""
        scheme = "tcp+tls" if self.tls else "tcp"
        user = f":{quote(self.password, safe='')}@" if self.password else ""
        return f"{scheme}://{user}{self.host}:{port}"

    def start(self) -> None:
        """Start it and wait until it greets; after kill() with the same ports and data."""
        if self._child is not None:
            if self._child.running():
                raise RuntimeError(f"this {self.name} is running already")
            # After a crash: what it started itself must be gone too.
            self._child.end()
            self._child = None
        if self._dir is None:
            self._dir = self._given_dir or make_directory()
        (self._dir / "conf").mkdir(parents=True, exist_ok=True)
        if self.tls and not (self._dir / "conf" / "ca.pem").exists():
            _write_certificates(self._dir / "conf")
        if self._ports is not None:
            self._launch(self._ports)
            return
        for attempt in range(1, PORT_ATTEMPTS + 1):
            ports = (Port(), Port())
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
        if self._child is None:
            raise RuntimeError(f"this {self.name} is not running")
        return self._child.wait_ended()

    def kill(self) -> None:
        """SIGKILL this process alone, as a crash would."""
        if self._child is None:
            raise RuntimeError(f"this {self.name} is not running")
        self._child.kill()

    def restart(self) -> None:
        """End it in an orderly way and start it again with the same ports and data."""
        if self._child is None:
            raise RuntimeError(f"this {self.name} is not running")
        self._child.end()
        self._child = None
        self.start()

    def _require_ports(self) -> tuple[Port, Port]:
        if self._ports is None:
            raise RuntimeError(f"this {self.name} has not been started")
        return self._ports

    def _launch(self, ports: tuple[Port, Port]) -> None:
        child = self._start_child(ports[0].number, ports[1].number)
        try:
            child.wait_ready(self.name, lambda: self._greets(child, ports[0].number))
        except BaseException:
            if child.running():
                child.end()
            raise
        self._child = child

    def _start_child(self, port: int, web_port: int) -> Child:
        raise NotImplementedError

    def _ready_line(self, port: int) -> str:
        """What its log says when it listens."""
        raise NotImplementedError

    def _greets(self, child: Child, port: int) -> bool:
        # The log first: a greeting alone could come from a stranger that took our port.
        if self._ready_line(port) not in child.log_text():
            return False
        try:
            with socket.create_connection(("127.0.0.1", port), GREETING_DEADLINE) as plain:
                if not self.tls:
                    return plain.recv(64).startswith(b"+HI")
                context = ssl.create_default_context(cafile=self.ca_file)
                with context.wrap_socket(plain, server_hostname=self.host) as secure:
                    return secure.recv(64).startswith(b"+HI")
        except OSError:
            return False

    def _clean_up(self) -> None:
        if self._dir is not None and self._given_dir is None:
            remove_directory(self._dir)
            self._dir = None


def _write_certificates(directory: Path) -> None:
    """Make an authority and a server certificate under the names that Faktory looks for."""
    authority = trustme.CA()
    server = authority.issue_cert("localhost", "127.0.0.1")
    chain = b"".join(blob.bytes() for blob in server.cert_chain_pems)
    (directory / "public.cert.pem").write_bytes(chain)
    (directory / "private.key.pem").write_bytes(server.private_key_pem.bytes())
    authority.cert_pem.write_to_path(directory / "ca.pem")
