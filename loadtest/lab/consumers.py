"""The four consumers: how each is built and started, and what it needs to count as ready.

The interoperability tests call build_go_peer() and build_rust_peer() too.
"""

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from devservers.checkout import PRODUCT_PATH
from devservers.processes import Child
from loadtest.lab.cells import ONE_SOCKET_PER_SLOT_CAP, Cell, jobs_for, jobs_for_one_socket
from loadtest.lab.service_view import is_service_ready
from loadtest.lib.errors import PeerError
from loadtest.lib.programs import CACHE, PEERS, build_go, build_program

QUEUE = "bench"
# Of each process of ours at the least: to fetch, to report, and for the heartbeat.
LEAST_CONNECTIONS = 3


@dataclass(frozen=True, slots=True)
class Consumer:
    """A consumer that is ready to be started: its command line for so many slots."""

    name: str
    title: str
    command: Callable[[int], list[str]]
    environment: Callable[[int], dict[str, str]] = field(default=lambda _slots: {})
    is_one_socket_per_slot: bool = False
    is_one_socket: bool = False
    # The one that it drains: a key of lab.LABS.
    server: str = "faktory"
    # The server must see as many connections before it is complete.
    least_connections: int = 1
    # Asked with its pid: whether all that belongs to it has started.
    is_ready: Callable[[int], bool] = field(default=lambda _pid: True)

    def slots_for(self, cell: Cell) -> int:
        """Return the cell's slots, or what the server's connections allow this consumer."""
        if self.is_one_socket_per_slot:
            return min(cell.slots, ONE_SOCKET_PER_SLOT_CAP)
        return cell.slots

    def jobs_for(self, cell: Cell) -> int:
        slots = self.slots_for(cell)
        if self.is_one_socket:
            return jobs_for_one_socket(cell, slots)
        return jobs_for(cell, slots, self.server)

    def min_connections(self, slots: int) -> int:
        """Return how many connections the server must see before the consumer is complete."""
        return slots if self.is_one_socket_per_slot else self.least_connections

    def start(self, slots: int, url: str, log: Path) -> Child:
        """Start it in a process group of its own, which has all its processes."""
        settings = {"PYTHONPATH": PRODUCT_PATH, "FAKTORY_URL": url} | self.environment(slots)
        return Child(self.command(slots), log=log, env=os.environ | settings)

    def wait_ready(self, process: Child) -> None:
        """Raises StartError, and has ended it, when it does not come up."""
        process.wait_ready(self.title, lambda: self.is_ready(process.pid))


def build_go_peer() -> Path:
    """Build loadtest/peers/go and return the program; a second call is quick."""
    return build_go(CACHE / "go" / "peer", PEERS / "go")


def build_rust_peer(*, is_optimised: bool) -> Path:
    """Build loadtest/peers/rust and return the program; a second call is quick. Optimising takes
    the compiler minutes, which only a measurement is worth."""
    cargo = shutil.which("cargo")
    if cargo is None:
        raise PeerError("no cargo: install Rust to build the peer of the crate faktory")
    target = CACHE / "rust"
    profile, folder = ("release", "release") if is_optimised else ("dev", "debug")
    command = [cargo, "build", "--profile", profile, "--target-dir", str(target)]
    build_program(command, PEERS / "rust")
    return target / folder / "peer"


def build_node_peer() -> Path:
    """Install loadtest/peers/node with what it needs and return the script for `node`."""
    npm = shutil.which("npm")
    if npm is None:
        raise PeerError("no npm: install Node.js to run the peer of the package faktory-worker")
    target = CACHE / "node"
    target.mkdir(parents=True, exist_ok=True)
    sources = [PEERS / "node" / name for name in ("package.json", "package-lock.json", "main.js")]
    is_installed = (target / "node_modules").is_dir() and all(
        (target / source.name).is_file()
        and (target / source.name).read_bytes() == source.read_bytes()
        for source in sources[:2]
    )
    for source in sources:
        shutil.copy(source, target)
    if not is_installed:
        build_program([npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"], target)
    return target / "main.js"


def ours(processes: int = 1) -> Consumer:
    """`manyhands worker`; so many processes share the slots that it is started with."""

    def environment(slots: int) -> dict[str, str]:
        return {
            "WORKER_CONCURRENCY": str(slots // processes),
            "WORKER_PROCESSES": str(processes),
            "WORKER_QUEUES": QUEUE,
            "WORKER_HANDLERS": "loadtest.lab.handlers",
            "WORKER_HTTP_BIND": "127.0.0.1:0",
        }

    return Consumer(
        "ours",
        "Manyhands",
        lambda _slots: [sys.executable, "-m", "manyhands.worker"],
        environment,
        least_connections=LEAST_CONNECTIONS * processes,
        is_ready=lambda pid: is_service_ready(pid, processes),
    )


def rust() -> Consumer:
    program = str(build_rust_peer(is_optimised=True))
    return Consumer(
        "rust",
        "faktory (Rust)",
        lambda slots: [program, "consume", "--queue", QUEUE, "--slots", str(slots)],
        is_one_socket_per_slot=True,
    )


def go() -> Consumer:
    program = str(build_go_peer())
    return Consumer(
        "go",
        "faktory_worker_go",
        lambda slots: [program, "consume", "--queue", QUEUE, "--slots", str(slots)],
        is_one_socket_per_slot=True,
    )


def pypi() -> Consumer:
    program = str(PEERS / "pypi_faktory.py")
    return Consumer(
        "pypi",
        "faktory (PyPI)",
        lambda slots: [sys.executable, program, "--queue", QUEUE, "--slots", str(slots)],
        is_one_socket=True,
    )


def on_broker(consumer: Consumer) -> Consumer:
    """Return the same consumer as one of its own that drains our broker."""
    return replace(consumer, name="on_broker", title=f"{consumer.title}, broker", server="broker")


MAKERS: dict[str, Callable[[], Consumer]] = {"ours": ours, "rust": rust, "go": go, "pypi": pypi}


def make_consumers(names: list[str]) -> list[Consumer]:
    """Build what can be built; say in one line what is left out."""
    consumers = []
    for name in names:
        try:
            consumers.append(MAKERS[name]())
        except PeerError as error:
            print(f"left out: {name}: {error}", file=sys.stderr)
    return consumers
