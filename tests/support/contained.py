"""Runs a compose service without Docker as Docker would run it: on a host of a test's network, with
the service's own command, user, environment, limits and volumes, and nothing else.

The image is what is missing: programs and Python come from this checkout.
"""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from shlex import quote

from devservers.build import build, redis_server
from devservers.hosts import Network
from devservers.processes import Child
from tests.support.compose import ROOT, Service

SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
# All named volumes are below; what else a machine has there, no service needs.
VOLUMES = "/var/lib"
RUN = "/run"
SECRETS = f"{RUN}/secrets"
# Directories are held here while something is mounted over where they are.
HELD = f"{VOLUMES}/.held"
# The one right that a container's user would not have: Python or this checkout may be somewhere
# that only root may look into.
SEES_ALL_FILES = "-all,+dac_read_search"


class Contained:
    """The services of a test, with a directory for their logs and for files that they may see.
    State: those that run."""

    def __init__(
        self,
        network: Network,
        directory: Path,
        names: Mapping[str, str],
        secrets: Mapping[str, str],
    ) -> None:
        """`names` is what Docker's name service would know: service → address."""
        self._network = network
        self._directory = directory
        self._running: list[Child] = []
        self._secrets = directory / "secrets"
        self._secrets.mkdir()
        for name, secret in secrets.items():
            (self._secrets / name).write_text(secret)
        self._hosts_file = directory / "hosts"
        self._hosts_file.write_text(
            "".join(f"{address} {name}\n" for name, address in names.items())
        )

    def start(self, service: Service, host: str, **changes: str) -> Child:
        """Start it. `changes` are settings that this test must have otherwise."""
        number = len(list(self._directory.glob("*.log")))
        child = Child(
            self._command(service, host, service.command, changes),
            log=self._directory / f"{number}-{service.name}.log",
            env={"PATH": SYSTEM_PATH},
        )
        self._running.append(child)
        return child

    def is_healthy(self, service: Service, host: str) -> bool:
        """Run the service's health check, where it would be run."""
        command = self._command(service, host, service.health_command, {})
        done = subprocess.run(command, env={"PATH": SYSTEM_PATH}, capture_output=True, timeout=20)
        return done.returncode == 0

    def stop(self, child: Child) -> None:
        child.end()
        self._running.remove(child)

    def stop_all(self) -> None:
        for child in reversed(self._running):
            child.end()
        self._running.clear()

    def _command(
        self, service: Service, host: str, command: list[str], changes: Mapping[str, str]
    ) -> list[str | Path]:
        uid, gid = service.user
        environment = {"PATH": self._path(), **service.environment, **changes}
        return [
            # Gives what it runs a view of the file systems of its own, too.
            *("ip", "netns", "exec", self._network.namespace(host)),
            *("sh", "-ec", "\n".join(self._preparation(service)), "sh"),
            *("setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--no-new-privs"),
            *(f"--bounding-set={SEES_ALL_FILES}", f"--inh-caps={SEES_ALL_FILES}"),
            *(f"--ambient-caps={SEES_ALL_FILES}", "env", "-i", "-C", ROOT),
            *(f"{name}={value}" for name, value in environment.items()),
            *(_program(command[0]), *command[1:]),
        ]

    def _preparation(self, service: Service) -> Iterator[str]:
        """Shell commands that mount what the service sees, and nobody else."""
        yield f"mount -t tmpfs -o mode=755 tmpfs {VOLUMES}"
        seen = [self._directory, *_covered(service.tmpfs)]
        for number, directory in enumerate(seen):
            yield f"mkdir -p {HELD}/{number}"
            yield f"mount --bind {quote(str(directory))} {HELD}/{number}"
        yield f"mount --bind {quote(str(self._hosts_file))} /etc/hosts"
        if service.secrets:
            yield f"mount -t tmpfs -o mode=755 tmpfs {RUN}"
            yield f"mkdir -p {SECRETS}"
        for name in service.secrets:
            yield f"install -m 444 {quote(str(self._secrets / name))} {SECRETS}/{name}"
        for target in service.tmpfs:
            yield f"mount -t tmpfs -o mode=1777 tmpfs {target}"
        for number, directory in enumerate(seen):
            yield f"mkdir -p {quote(str(directory))}"
            yield f"mount --bind {HELD}/{number} {quote(str(directory))}"
        for target in service.volume_targets:
            assert target.startswith(f"{VOLUMES}/"), target
            yield f"mkdir -m 775 {target}"
            yield f"chown {_volume_owner(service)} {target}"
        if service.definition.get("read_only"):
            yield "mount -o remount,bind,ro /"
        yield f"ulimit -n {service.nofile}"
        yield 'exec "$@"'

    def _path(self) -> str:
        """Where this checkout's Python and Redis are, and the system's own programs."""
        redis = self._directory / "bin" / "redis-server"
        if not redis.exists():
            redis.parent.mkdir()
            redis.symlink_to(redis_server())
        return f"{Path(sys.executable).parent}:{redis.parent}:/usr/bin:/bin"


def _covered(targets: list[str]) -> list[Path]:
    """What a service needs of this machine and would not see any more, outer ones first."""
    needed = {ROOT, Path(sys.prefix), Path(sys.base_prefix)}
    return sorted(path for path in needed if any(path.is_relative_to(one) for one in targets))


def _program(name: str) -> str | Path:
    return build() / "faktory" if name == "/faktory" else name


def _volume_owner(service: Service) -> str:
    """A volume takes over the owner of the image's directory: ours is the user, Faktory's root,
    with all rights for the group 0."""
    uid, gid = service.user
    return f"0:{gid}" if gid == 0 else f"{uid}:{gid}"
