"""A pgbouncer in transaction mode in front of a PostgreSQL: what many databases are reached by, and
what nothing that lives in a session survives.

It is that of the machine's own Debian or Ubuntu, fetched once with apt-get, without root, into the
checkout's .cache directory. Where apt-get is missing, missing_for_pgbouncer() says so.
"""

import functools
import platform
import signal
from collections.abc import Sequence
from pathlib import Path

from devservers.build import CACHE, BuildError, made_once
from devservers.packages import missing_tools, unpack_packages
from devservers.postgres import DATABASE, PASSWORD, USER, PostgresServer
from devservers.processes import Child
from devservers.server import Server
from devservers.unprivileged import give, unprivileged_user, within_reach

PACKAGES = ("pgbouncer", "libevent-2.1-7", "libc-ares2")
READY_LINE = "process up"


class PgbouncerServer(Server):
    """`connections` are those that it opens to PostgreSQL, for as many clients as there are. With a
    `certificate` (a file with key and chain) clients must speak TLS, which the PostgreSQL of this
    package does not."""

    name = "pgbouncer"

    def __init__(
        self, postgres: PostgresServer, *, connections: int = 2, certificate: Path | None = None
    ) -> None:
        super().__init__()
        self._postgres = postgres
        self._connections = connections
        self._certificate = certificate

    @property
    def url(self) -> str:
        return self._postgres.url_at(self.port)

    def _prepare(self, directory: Path) -> None:
        give(directory, unprivileged_user())

    def _start_child(self, ports: Sequence[int]) -> Child:
        users, settings = self.data_dir / "users", self.data_dir / "pgbouncer.ini"
        users.write_text(f'"{USER}" "{PASSWORD}"\n')
        settings.write_text(
            "[databases]\n"
            f"{DATABASE} = host=127.0.0.1 port={self._postgres.port}\n"
            "[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {ports[0]}\nunix_socket_dir =\n"
            f"auth_type = plain\nauth_file = {users}\n"
            f"pool_mode = transaction\ndefault_pool_size = {self._connections}\n"
            # What a session leaves behind is the next client's: nothing is cleaned up.
            "server_reset_query =\n" + self._tls()
        )
        for file in (users, settings):
            give(file, unprivileged_user())
        root = within_reach(_root().parent, (_root().name,), unprivileged_user()) / _root().name
        libraries = next(root.glob("usr/lib/*/libevent-2.1.so.*")).parent
        return Child(
            [root / "usr" / "sbin" / "pgbouncer", settings],
            log=self.data_dir / "pgbouncer.log",
            env={"LD_LIBRARY_PATH": str(libraries)},
            user=unprivileged_user(),
            end_signal=signal.SIGTERM,
        )

    def _tls(self) -> str:
        if self._certificate is None:
            return ""
        own = self.data_dir / "certificate.pem"
        own.write_bytes(self._certificate.read_bytes())
        give(own, unprivileged_user())
        return f"client_tls_sslmode = require\nclient_tls_key_file = {own}\n" + (
            f"client_tls_cert_file = {own}\n"
        )

    def _is_ready(self, child: Child, port: int) -> bool:
        del port
        return READY_LINE in child.log_text()


def missing_for_pgbouncer() -> list[str]:
    """Name the programs that are needed to fetch it and that this machine has not."""
    return [] if _target().is_dir() else missing_tools()


@functools.cache
def _root() -> Path:
    if missing := missing_for_pgbouncer():
        raise BuildError(f"not on PATH: {', '.join(missing)}; pgbouncer is fetched with them")
    return made_once(_target(), functools.partial(unpack_packages, PACKAGES))


def _target() -> Path:
    return CACHE / f"pgbouncer-{platform.machine()}"
