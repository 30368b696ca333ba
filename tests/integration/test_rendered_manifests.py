"""What a real kustomize makes of the Kubernetes manifests is valid, too, and whole."""

import shutil
import subprocess

import pytest
import yaml

from devservers import kustomize
from tests.support.manifests import (
    BASE,
    DIRECTORY,
    KUBERNETES_VERSIONS,
    OVERLAYS,
    Manifest,
    check_schema,
    patched_workload,
    secret_references,
)

SCALED = {
    "base": set(),
    "hpa": {"api-service", "worker-service"},
    "keda": {"worker-service"},
    "example": {"worker-service"},
}
EXAMPLE_SECRETS = BASE / "secrets.env.example"


@pytest.fixture(params=[BASE, *OVERLAYS], ids=lambda path: path.name)
def rendered(request, tmp_path):
    """The name of the directory, and its objects."""
    copy = tmp_path / "kubernetes"
    shutil.copytree(DIRECTORY, copy)
    shutil.copy(EXAMPLE_SECRETS, copy / "base" / "secrets.env")
    directory = copy / request.param.relative_to(DIRECTORY)
    done = subprocess.run(
        [kustomize(), "build", directory], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    objects = [Manifest(directory, content) for content in yaml.safe_load_all(done.stdout)]
    return request.param.name, objects


@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
def test_it_is_valid(rendered, version, tmp_path):
    _, objects = rendered
    file = tmp_path / "rendered.yaml"
    file.write_text(yaml.safe_dump_all([one.content for one in objects if not one.is_kedas]))
    done = check_schema(version, file)
    assert done.returncode == 0, done.stdout


def test_all_that_asks_for_secrets_is_told_the_hashed_name(rendered):
    _, objects = rendered
    (secret,) = [one for one in objects if one.kind == "Secret"]
    asked = {name for one in objects for name, _ in secret_references(one.content)}
    assert asked == {secret.name}
    assert secret.name != "manyhands-secrets"


def test_what_is_scaled_has_no_fixed_number(rendered):
    name, objects = rendered
    pods = [one for one in objects if one.kind in ("Deployment", "StatefulSet")]
    assert {one.name for one in pods if "replicas" not in one.spec} == SCALED[name]


def test_the_example_sends_records_to_its_bucket(rendered):
    name, objects = rendered
    (worker,) = [one for one in objects if one.kind == "StatefulSet" and "worker" in one.name]
    patched = patched_workload(DIRECTORY / "overlays" / "example" / "object-storage.yaml")
    assert (worker.environment["SINKS"] == patched["SINKS"]) == (name == "example")
    named = {entry["name"] for entry in worker.container["env"]}
    assert (patched.keys() <= named) == (name == "example")
