"""podman with runc, and a storage of its own: what other users of it have on this machine is
neither seen nor touched."""

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from devservers.build import BuildError

NEEDED = ("podman", "runc", "debootstrap", "nsenter", "unshare", "ip")
# What podman's networks and the names in them are made by; it looks for them here.
HELPERS = [Path("/usr/lib/podman", name) for name in ("netavark", "aardvark-dns")]
TIMEOUT_S = 600.0
# Without these runc wants higher ones, which not every environment lets it set.
FILES = "nofile=16384:16384"
PROCESSES = "nproc=4096:4096"
CONTAINERS_CONF = """\
[containers]
default_ulimits = ["{files}", "{processes}"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
tmp_dir = "{directory}/tmp"
[network]
network_backend = "netavark"
network_config_dir = "{directory}/networks"
"""
STORAGE_CONF = """\
[storage]
driver = "{driver}"
graphroot = "{directory}/storage"
runroot = "{directory}/run"
"""
# Names without a registry mean the images that are here.
REGISTRIES_CONF = "unqualified-search-registries = []\n"
# podman-compose gives no limit of its own to all containers alike.
WRAPPER = """\
#!/bin/sh
case "$1" in
    create|run) verb=$1; shift; exec {podman} "$verb" --ulimit {processes} "$@" ;;
esac
exec {podman} "$@"
"""


def missing_programs() -> str:
    """One line that says what to install; empty if all is there."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    missing += [str(path) for path in HELPERS if not path.is_file()]
    if os.geteuid() != 0:
        return "containers need root here"
    if missing:
        return f"not here: {', '.join(missing)}; on Debian and Ubuntu: make container-tools"
    return ""


def _installed(wrappers: Path) -> str | None:
    """The podman that is no wrapper of ours, whose directory the caller's PATH may have."""
    places = os.environ.get("PATH", os.defpath).split(os.pathsep)
    others = [place for place in places if Path(place) != wrappers]
    return shutil.which("podman", path=os.pathsep.join(others))


def _takes_overlays(directory: Path) -> bool:
    """Where a file system is an overlay itself, each layer is a whole copy."""
    with tempfile.TemporaryDirectory(dir=directory) as place:
        parts = {name: Path(place, name) for name in ("lowerdir", "upperdir", "workdir")}
        for part in parts.values():
            part.mkdir()
        options = ",".join(f"{name}={part}" for name, part in parts.items())
        target = Path(place, "merged")
        target.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "overlay", "-o", options, "overlay", target], capture_output=True
        )
        if mounted.returncode == 0:
            subprocess.run(["umount", target], check=True)
        return mounted.returncode == 0


class Podman:
    """`directory`: where images and containers are, and how it is set up."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        for name in ("tmp", "networks", "storage", "run"):
            (directory / name).mkdir(parents=True, exist_ok=True)
        driver = "overlay" if _takes_overlays(directory) else "vfs"
        texts = {
            "containers.conf": CONTAINERS_CONF,
            "storage.conf": STORAGE_CONF,
            "registries.conf": REGISTRIES_CONF,
        }
        for name, text in texts.items():
            (directory / name).write_text(
                text.format(directory=directory, files=FILES, processes=PROCESSES, driver=driver)
            )
        self.program = directory / "podman"
        self.program.write_text(WRAPPER.format(podman=_installed(directory), processes=PROCESSES))
        self.program.chmod(0o755)
        self.environment = {
            **os.environ,
            "CONTAINERS_CONF": str(directory / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(directory / "storage.conf"),
            "CONTAINERS_REGISTRIES_CONF": str(directory / "registries.conf"),
            # Ours, where a page's command says podman.
            "PATH": f"{directory}{os.pathsep}{os.environ.get('PATH', '')}",
            # Health checks are run by hand: there need not be a systemd.
            "DISABLE_HC_SYSTEMD": "true",
        }

    def __call__(self, *arguments: str | Path, timeout_s: float = TIMEOUT_S) -> str:
        """What it prints. Raises BuildError with what it complains of."""
        return self.run([self.program, *arguments], timeout_s=timeout_s)

    def run(
        self,
        command: Sequence[str | Path],
        *,
        cwd: Path | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> str:
        """A program that starts podman itself."""
        done = subprocess.run(
            command,
            cwd=cwd,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
        )
        if done.returncode:
            said = f"{done.stdout}\n{done.stderr}".strip()
            raise BuildError(f"{' '.join(map(str, command))} failed ({done.returncode}):\n{said}")
        return done.stdout.strip()

    def succeeds(self, *arguments: str) -> bool:
        try:
            self(*arguments)
        except BuildError:
            return False
        return True

    def start_afresh(self) -> None:
        """In namespaces of our own: what podman notes of running containers, and netavark of its
        server of names, goes with them, as with a machine that is started again. So what a killed
        run has left can be removed."""
        noted = [self._directory / "run", self._directory / "tmp"]
        noted += [Path(place) for place in ("/run/containers", "/run/netns", "/dev/shm")]
        for place in noted:
            place.mkdir(parents=True, exist_ok=True)
            subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=True)
        # Twice: some depend on others.
        self.succeeds("rm", "--all", "--force", "--time", "0")
        self("rm", "--all", "--force", "--time", "0")
        for kind in ("network", "volume"):
            self(kind, "prune", "--force")

    def has_image(self, name: str) -> bool:
        return self.succeeds("image", "exists", name)

    def is_running(self, container: str) -> bool:
        return self("inspect", "--format", "{{.State.Running}}", container) == "true"

    def pid(self, container: str) -> int:
        return int(self("inspect", "--format", "{{.State.Pid}}", container))

    def exit_code(self, container: str) -> int:
        return int(self("inspect", "--format", "{{.State.ExitCode}}", container))

    def oom_kills(self, container: str) -> int:
        """How many of its processes the kernel has killed at the limit of its memory."""
        text = Path(f"/proc/{self.pid(container)}/cgroup").read_text()
        for line in text.splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in ("memory", ""):
                place = Path("/sys/fs/cgroup", controllers, path.lstrip("/"))
                told = place / ("memory.oom_control" if controllers else "memory.events")
                if found := re.search(r"^oom_kill (\d+)$", told.read_text(), re.MULTILINE):
                    return int(found[1])
        raise AssertionError(f"nobody counts what the kernel kills in {container}:\n{text}")

    def address(self, container: str, network: str) -> str:
        template = f'{{{{(index .NetworkSettings.Networks "{network}").IPAddress}}}}'
        return self("inspect", "--format", template, container)

    def megabytes(self, image: str) -> float:
        return int(self("image", "inspect", "--format", "{{.Size}}", image)) / 1e6

    def wait_until(self, container: str, within_s: float) -> None:
        """Its health check succeeds."""
        deadline = time.monotonic() + within_s
        while not self.succeeds("healthcheck", "run", container):
            if time.monotonic() > deadline:
                log = self("logs", "--tail", "40", container)
                raise BuildError(f"{container} is not healthy after {within_s:.0f} s:\n{log}")
            time.sleep(0.5)
