"""The Kubernetes manifests as data."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.compose import ROOT

DIRECTORY = ROOT / "deploy" / "kubernetes"
BASE = DIRECTORY / "base"
OVERLAYS = [DIRECTORY / "overlays" / name for name in ("hpa", "keda", "example")]
KUSTOMIZATION = "kustomization.yaml"
# The oldest that should work, and what the schemas of today know.
KUBERNETES_VERSIONS = ["1.30", "1.37"]


@dataclass(frozen=True)
class Manifest:
    path: Path
    content: dict[str, Any]

    @property
    def kind(self) -> str:
        return str(self.content["kind"])

    @property
    def name(self) -> str:
        return str(self.content["metadata"]["name"])

    @property
    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.content["spec"]
        return spec

    @property
    def is_kedas(self) -> bool:
        return str(self.content["apiVersion"]).startswith("keda.sh/")

    @property
    def pod(self) -> dict[str, Any]:
        pod: dict[str, Any] = self.spec["template"]["spec"]
        return pod

    @property
    def container(self) -> dict[str, Any]:
        (container,) = self.pod["containers"]
        assert isinstance(container, dict)
        return container

    @property
    def pod_labels(self) -> dict[str, str]:
        labels: dict[str, str] = self.spec["template"]["metadata"]["labels"]
        return labels

    @property
    def environment(self) -> dict[str, str]:
        """Plain values by name; those of secrets are left out."""
        given = self.container["env"]
        return {entry["name"]: entry["value"] for entry in given if "value" in entry}

    def __str__(self) -> str:
        return f"{self.path.parent.name}-{self.kind}-{self.name}"


def kustomization(directory: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((directory / KUSTOMIZATION).read_text())
    return content


def files(directory: Path) -> list[Path]:
    """The files that a kustomization lists as its own."""
    listed = [directory / name for name in kustomization(directory)["resources"]]
    return [path for path in listed if path.suffix]


def manifests(directory: Path) -> list[Manifest]:
    return [
        Manifest(path, content)
        for path in files(directory)
        for content in yaml.safe_load_all(path.read_text())
    ]


def patched_workload(path: Path) -> dict[str, str | None]:
    """The variables that a patch of a workload sets in its container; None for those of secrets."""
    content = yaml.safe_load(path.read_text())
    (container,) = content["spec"]["template"]["spec"]["containers"]
    return {entry["name"]: entry.get("value") for entry in container["env"]}


def everything() -> list[Manifest]:
    return [one for directory in (BASE, *OVERLAYS) for one in manifests(directory)]


def workloads() -> list[Manifest]:
    return [one for one in manifests(BASE) if one.kind in ("Deployment", "StatefulSet")]


def workload(name: str) -> Manifest:
    (found,) = [one for one in workloads() if one.name == name]
    return found


def secret_references(value: Any) -> Iterator[tuple[str, str]]:
    """Name and key of every entry of a Secret that is asked for."""
    if isinstance(value, dict):
        if "secretKeyRef" in value:
            yield value["secretKeyRef"]["name"], value["secretKeyRef"]["key"]
        for reference in value.get("secretTargetRef", []):
            yield reference["name"], reference["key"]
        for inner in value.values():
            yield from secret_references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from secret_references(inner)


def check_schema(version: str, *paths: Path) -> subprocess.CompletedProcess[str]:
    """Strictly: a field that Kubernetes does not know is refused. Each object is named."""
    command = [sys.executable, "-m", "kubernetes_validate", "--strict", "-k", version]
    output = subprocess.PIPE
    return subprocess.run([*command, *paths], stdout=output, stderr=subprocess.STDOUT, text=True)
