"""One compose project: a shipped file, by podman-compose, with an `.env` and secrets of a test."""

import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.containers.podman import Podman
from tests.support.compose import ROOT, interpolate, read, seconds

# A busy machine takes far longer over it than an idle one.
HEALTHY_WITHIN_S = 600.0
DIGEST = re.compile(r"@sha256:[0-9a-f]{64}")


class Project:
    """`directory` takes the place of the checkout: the file as it is shipped, but for the digests,
    which stand-ins do not have. State: its containers."""

    def __init__(
        self,
        podman: Podman,
        file: Path,
        name: str,
        directory: Path,
        *,
        settings: Mapping[str, str],
        secrets: Mapping[str, str],
    ) -> None:
        self._podman = podman
        self.name = name
        self.network = f"{name}_default"
        self._directory = directory
        directory.mkdir()
        self._file = directory / file.name
        self._file.write_text(DIGEST.sub("", file.read_text()))
        shutil.copytree(ROOT / "deploy", directory / "deploy")
        (directory / "secrets").mkdir(mode=0o700)
        for secret, value in secrets.items():
            (directory / "secrets" / secret).write_text(f"{value}\n")
        self._services = {
            name: self._extended(definition)
            for name, definition in read(self._file)["services"].items()
        }
        # Before the services: the settings name addresses in it.
        podman("network", "create", self.network)
        self.gateway = self._gateway()
        self.set(settings)

    def set(self, settings: Mapping[str, str]) -> None:
        lines = [f"{name}={value}\n" for name, value in settings.items()]
        (self._directory / ".env").write_text("".join(lines))
        self._settings = dict(settings)

    def use_directory(self, volume: str, directory: Path) -> None:
        """Before the first `up`: a volume of the file is this directory."""
        self._podman(
            *("volume", "create", "--opt", "type=none", "--opt", "o=bind"),
            *("--opt", f"device={directory}", f"{self.name}_{volume}"),
        )

    def compose(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "podman_compose", "--podman-path", self._podman.program]
        command += ["--in-pod", "false", "-p", self.name, "-f", self._file]
        return self._podman.run([*map(str, command), *arguments], cwd=self._directory)

    def up(self, *arguments: str) -> None:
        self.compose("up", "--detach", "--no-build", *arguments)

    def containers(self, service: str) -> list[str]:
        label = "label=com.docker.compose"
        found = self._podman(
            *("ps", "--all", "--format", "{{.Names}}"),
            *("--filter", f"{label}.project={self.name}"),
            *("--filter", f"{label}.service={service}"),
        )
        return sorted(found.split())

    def running(self, service: str) -> list[str]:
        return [name for name in self.containers(service) if self._podman.is_running(name)]

    def wait_healthy(self, *services: str) -> None:
        """All that run."""
        for service in services:
            found = self.running(service)
            assert found, f"no container of {service} runs in {self.name}"
            for container in found:
                self._podman.wait_until(container, HEALTHY_WITHIN_S)

    def stop(self, container: str, service: str) -> None:
        """With the grace that the file gives it."""
        grace = seconds(self._services[service]["stop_grace_period"])
        self._podman("stop", "--time", f"{grace:.0f}", container)
        code = self._podman.exit_code(container)
        assert code == 0, f"the exit code of {container} is {code}"

    def remove(self) -> None:
        self.compose("down", "--volumes", "--timeout", "1")
        self._podman.succeeds("network", "rm", "--force", self.network)

    def check_limits(self, service: str) -> None:
        """What the file says of processors and memory is what its containers have."""
        given = interpolate(
            self._services[service]["deploy"]["resources"]["limits"], self._settings
        )
        units = {"M": 2**20, "G": 2**30}
        wanted = int(given["memory"][:-1]) * units[given["memory"][-1]], float(given["cpus"]) * 1e9
        template = "{{.HostConfig.Memory}} {{.HostConfig.NanoCpus}}"
        for container in self.containers(service):
            told = self._podman("inspect", "--format", template, container)
            assert tuple(map(float, told.split())) == wanted, f"{container}: {told}"

    def _extended(self, definition: dict[str, Any]) -> dict[str, Any]:
        base = definition.get("extends")
        if base is None:
            return definition
        services: dict[str, dict[str, Any]] = read(self._directory / base["file"])["services"]
        return services[base["service"]] | definition

    def _gateway(self) -> str:
        told = yaml.safe_load(self._podman("network", "inspect", self.network))
        return str(told[0]["subnets"][0]["gateway"])
