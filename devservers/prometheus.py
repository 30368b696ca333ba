"""A real Prometheus, and its promtool: those of the machine's own Debian or Ubuntu, fetched once
with apt-get, without root, into the checkout's .cache directory.

Where apt-get is missing, missing_for_prometheus() says so, and the tests that need it are left out.
"""

import functools
import platform
from collections.abc import Sequence
from pathlib import Path

from devservers.build import CACHE, BuildError, made_once
from devservers.http_server import HttpServer
from devservers.packages import missing_tools, unpack_packages
from devservers.processes import Child


class PrometheusServer(HttpServer):
    """`config` is the text of its configuration; `rules` are files that it names."""

    name = "Prometheus"
    probe_path = "/-/ready"

    def __init__(self, config: str, rules: Sequence[Path] = ()) -> None:
        super().__init__()
        self._config = config
        self._rules = rules

    def _prepare(self, directory: Path) -> None:
        (directory / "prometheus.yml").write_text(self._config)
        for file in self._rules:
            (directory / file.name).write_bytes(file.read_bytes())

    def _start_child(self, ports: Sequence[int]) -> Child:
        return Child(
            [
                _program("prometheus"),
                f"--config.file={self.data_dir / 'prometheus.yml'}",
                f"--storage.tsdb.path={self.data_dir / 'data'}",
                f"--web.listen-address=127.0.0.1:{ports[0]}",
            ],
            log=self.log,
            env={},
        )


def promtool() -> Path:
    """Return the program that checks rules and tests them."""
    return _program("promtool")


def missing_for_prometheus() -> list[str]:
    """Name the programs that are needed to fetch it and that this machine has not."""
    return [] if _target().is_dir() else missing_tools()


def _program(name: str) -> Path:
    return _root() / "usr" / "bin" / name


@functools.cache
def _root() -> Path:
    if missing := missing_for_prometheus():
        raise BuildError(f"not on PATH: {', '.join(missing)}; Prometheus is fetched with them")
    return made_once(_target(), functools.partial(unpack_packages, ("prometheus",)))


def _target() -> Path:
    return CACHE / f"prometheus-{platform.machine()}"
