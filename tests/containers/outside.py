"""A place on the networks of containers that is none of theirs: the network namespace of a
container that does nothing. The web is there, and what makes the server's machine far away."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from devservers import Relay
from devservers.hosts import inside_namespace
from tests.containers.images import BASE
from tests.containers.podman import FILES, Podman

NAME = "outside"


class Outside:
    """A context manager."""

    def __init__(self, podman: Podman, networks: Sequence[str]) -> None:
        self._podman = podman
        self._networks = networks
        self._namespace = Path()

    def __enter__(self) -> "Outside":
        self._podman(
            *("run", "--detach", "--name", NAME, "--network", self._networks[0]),
            *("--ulimit", FILES, BASE, "sleep", "infinity"),
        )
        for network in self._networks[1:]:
            self._podman("network", "connect", network, NAME)
        self._namespace = Path(f"/proc/{self._podman.pid(NAME)}/ns/net")
        return self

    def __exit__(self, *_: object) -> None:
        self._podman("rm", "--force", "--time", "0", NAME)

    def address(self, network: str) -> str:
        return self._podman.address(NAME, network)

    @contextmanager
    def inside(self) -> Iterator[None]:
        with inside_namespace(self._namespace):
            yield

    def lead(self, addresses: str) -> None:
        """All of these addresses are here, for the containers of all networks: their gateway, which
        is where we are, sends them on."""
        here = ["nsenter", f"--net={self._namespace}", "ip"]
        self._podman.run([*here, "route", "replace", "local", addresses, "dev", "lo"])
        via = self.address(self._networks[0])
        self._podman.run(["ip", "route", "replace", addresses, "via", via])

    @contextmanager
    def far_away(self, server: str, ports: Sequence[int], rtt_ms: float) -> Iterator[None]:
        """The server's ports are here, too, a round trip from where they are."""
        with ExitStack() as stack:
            with self.inside():
                for port in ports:
                    relay = Relay(port, rtt_ms, "0.0.0.0", port=port, upstream=server)
                    stack.enter_context(relay)
            yield
