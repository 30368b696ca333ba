"""What the two servers of Faktory's protocol have in common: addresses, certificates, greeting."""

import socket
import ssl
from pathlib import Path
from urllib.parse import quote

import trustme

from devservers.processes import Child
from devservers.server import Server

# Seconds for the greeting; it comes at once or not at all.
GREETING_DEADLINE = 2.0


class ProtocolServer(Server):
    """A server process on free ports of the loopback. Subclasses say how it is launched."""

    port_count = 2
    web_scheme = "http"

    def __init__(
        self, *, password: str | None = None, tls: bool = False, data_dir: Path | None = None
    ) -> None:
        # Faktory reads the password from a file and strips it; an empty one would mean none.
        if password is not None and (not password or password != password.strip()):
            raise ValueError("a password is not empty and has no blanks around it")
        super().__init__(data_dir=data_dir)
        self.password = password
        self.tls = tls

    @property
    def host(self) -> str:
        """The name that the certificate is checked against, where there is one."""
        return "localhost" if self.tls else "127.0.0.1"

    @property
    def url(self) -> str:
        return self.url_at(self.port)

    @property
    def web_url(self) -> str:
        """Its pages; with a password they want it by HTTP basic authentication, any name."""
        return f"{self.web_scheme}://{self.host}:{self._port_number(1)}"

    @property
    def ca_file(self) -> Path | None:
        return self.data_dir / "conf" / "ca.pem" if self.tls else None

    def url_at(self, port: int) -> str:
        """Return the URL with the port of something that stands in front of this server."""
        scheme = "tcp+tls" if self.tls else "tcp"
        user = f":{quote(self.password, safe='')}@" if self.password else ""
        return f"{scheme}://{user}{self.host}:{port}"

    def _prepare(self, directory: Path) -> None:
        (directory / "conf").mkdir(parents=True, exist_ok=True)
        if self.tls and not (directory / "conf" / "ca.pem").exists():
            _write_certificates(directory / "conf")

    def _ready_line(self, port: int) -> str:
        """What its log says when it listens."""
        raise NotImplementedError

    def _is_ready(self, child: Child, port: int) -> bool:
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


def _write_certificates(directory: Path) -> None:
    """Make an authority and a server certificate under the names that Faktory looks for."""
    authority = trustme.CA()
    server = authority.issue_cert("localhost", "127.0.0.1")
    chain = b"".join(blob.bytes() for blob in server.cert_chain_pems)
    (directory / "public.cert.pem").write_bytes(chain)
    (directory / "private.key.pem").write_bytes(server.private_key_pem.bytes())
    authority.cert_pem.write_to_path(directory / "ca.pem")
