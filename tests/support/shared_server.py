"""One big server for all processes of a test run: the first that needs it has it started, it ends
after the last. A keeper process owns it, so that no test process has to outlive the others.

Who uses the server holds a shared lock on a file, which the kernel releases however a process ends;
the keeper waits for an exclusive one.
"""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from devservers import ElasticsearchServer, KafkaServer

ROOT = Path(__file__).resolve().parent.parent.parent
KINDS: dict[str, type[ElasticsearchServer | KafkaServer]] = {
    "elasticsearch": ElasticsearchServer,
    "kafka": KafkaServer,
}


@dataclass(frozen=True, slots=True)
class SharedServer:
    """What a test may know of a server that others use too: where it is."""

    port: int

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"


@contextmanager
def shared_server(kind: str, directory: Path) -> Iterator[SharedServer]:
    """Give the server that all who name the same directory share."""
    directory.mkdir(exist_ok=True)
    with (directory / "users").open("a") as users:
        with (directory / "start").open("a") as start:
            fcntl.flock(start, fcntl.LOCK_EX)
            # While a keeper ends its server, this waits.
            fcntl.flock(users, fcntl.LOCK_SH)
            if not (directory / "port").exists():
                _start_keeper(kind, directory)
        yield SharedServer(int((directory / "port").read_text()))


def _start_keeper(kind: str, directory: Path) -> None:
    log = directory / "keeper.log"
    with log.open("wb") as output:
        done = subprocess.run(
            [sys.executable, "-m", "tests.support.shared_server", kind, str(directory)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C is for the tests
        )
    if done.returncode:
        raise RuntimeError(f"no {kind}:\n{log.read_text(errors='replace')}")


def keep(kind: str, directory: Path) -> int:
    """Start the server and return when it is ready; a fork of this process stays with it."""
    reading, writing = os.pipe()
    if os.fork():
        os.close(writing)
        return 0 if os.read(reading, 1) else 1
    with KINDS[kind]() as server, (directory / "users").open("a") as users:
        port = directory / "port"
        port.write_text(str(server.port))
        os.write(writing, b"!")
        fcntl.flock(users, fcntl.LOCK_EX)
        port.unlink()
        # Held until it has ended: at no time are there two.
        server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(keep(sys.argv[1], Path(sys.argv[2])))
