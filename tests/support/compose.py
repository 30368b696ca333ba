"""Reads our compose files the way `docker compose` does, as far as they use it: the rules for
variables, and what a service is run with. Refuses what it does not know."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
ALL_IN_ONE = ROOT / "docker-compose.yml"
SERVER = ROOT / "docker-compose.server.yml"
WORKER = ROOT / "docker-compose.worker.yml"
MONITORING = ROOT / "deploy" / "monitoring" / "compose.yml"
STORAGE = ROOT / "deploy" / "storage" / "compose.yml"

VARIABLE = re.compile(
    r"\$(?:(?P<dollar>\$)"
    r"|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:(?P<rule>:-|:\?)(?P<text>[^{}]*))?\}"
    r"|(?P<unknown>))"
)


class MissingVariable(Exception):
    """A variable that a file insists on is not set, or empty; with the file's own message."""


def interpolate(value: Any, variables: Mapping[str, str]) -> Any:
    """Replace `${NAME}`, `${NAME:-default}` and `${NAME:?message}` in every text; `$$` is a
    dollar. Keys stay as they are."""
    if isinstance(value, str):
        return VARIABLE.sub(lambda found: _replacement(found, variables), value)
    if isinstance(value, list):
        return [interpolate(item, variables) for item in value]
    if isinstance(value, dict):
        return {key: interpolate(item, variables) for key, item in value.items()}
    return value


def _replacement(found: re.Match[str], variables: Mapping[str, str]) -> str:
    if found["dollar"]:
        return "$"
    if found["name"] is None:
        raise ValueError(f"not a variable that this test can read: {found.string!r}")
    value = variables.get(found["name"], "")
    if value or found["rule"] is None:
        return value
    if found["rule"] == ":?":
        raise MissingVariable(f"{found['name']}: {found['text']}")
    return str(found["text"])


def variables_of(value: Any) -> set[str]:
    """The names of all variables that a file looks at."""
    if isinstance(value, str):
        return {found["name"] for found in VARIABLE.finditer(value) if found["name"]}
    if isinstance(value, dict):
        value = list(value.values())
    return set().union(*map(variables_of, value)) if isinstance(value, list) else set()


def passed_on(content: Mapping[str, Any]) -> set[str]:
    """The variables that a file hands to its services as they are, if they are set."""
    return {
        name
        for service in content["services"].values()
        for name, value in service.get("environment", {}).items()
        if value is None
    }


def looked_at(content: Mapping[str, Any]) -> set[str]:
    """All that a file takes from `.env` or from the shell."""
    return variables_of(dict(content)) | passed_on(content)


def read(path: Path) -> dict[str, Any]:
    """A compose file as it is written, with its anchors resolved."""
    content: dict[str, Any] = yaml.safe_load(path.read_text())
    return content


@dataclass(frozen=True)
class Service:
    """One service of a file, with all variables replaced. `variables` are those that are set."""

    name: str
    definition: Mapping[str, Any]
    variables: Mapping[str, str]

    @property
    def command(self) -> list[str]:
        return [str(part) for part in self.definition["command"]]

    @property
    def user(self) -> tuple[int, int]:
        uid, gid = self.definition["user"].split(":")
        return int(uid), int(gid)

    @property
    def environment(self) -> dict[str, str]:
        given = self.definition.get("environment", {})
        found = {
            name: self.variables.get(name) if value is None else str(value)
            for name, value in given.items()
        }
        return {name: value for name, value in found.items() if value is not None}

    @property
    def secrets(self) -> list[str]:
        """The names of its files in /run/secrets."""
        return list(self.definition.get("secrets", []))

    @property
    def health_command(self) -> list[str]:
        kind, *command = self.definition["healthcheck"]["test"]
        assert kind == "CMD", "a shell would be needed"
        return [str(part) for part in command]

    @property
    def nofile(self) -> int:
        limit = self.definition["ulimits"]["nofile"]
        assert limit["soft"] == limit["hard"]
        return int(limit["hard"])

    @property
    def limits(self) -> Mapping[str, str]:
        limits: Mapping[str, str] = self.definition["deploy"]["resources"]["limits"]
        return limits

    @property
    def stop_grace_s(self) -> float:
        return seconds(self.definition["stop_grace_period"])

    @property
    def volume_targets(self) -> list[str]:
        """Where named volumes are mounted."""
        return [volume.split(":")[1] for volume in self.definition.get("volumes", [])]

    @property
    def tmpfs(self) -> list[str]:
        given = self.definition.get("tmpfs", [])
        return [given] if isinstance(given, str) else list(given)


def services(path: Path, **variables: str) -> dict[str, Service]:
    """The services of a file. Raises MissingVariable as `docker compose` would refuse it."""
    content = interpolate(read(path), variables)
    return {name: Service(name, value, variables) for name, value in content["services"].items()}


def seconds(duration: str) -> float:
    found = re.fullmatch(r"(\d+)s", duration)
    assert found, f"write {duration!r} in seconds"
    return float(found[1])
