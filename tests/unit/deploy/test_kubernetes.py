"""The Kubernetes manifests: valid by the schemas of Kubernetes, whole, and in accord with the
compose files. No cluster is needed."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from manyhands.shared.settings import WorkerSettings
from manyhands.worker.source.lane_plan import FLEET_CONNECTIONS
from tests.support.compose import ROOT, SERVER, WORKER, services
from tests.support.manifests import (
    BASE,
    DIRECTORY,
    KUSTOMIZATION,
    OVERLAYS,
    Manifest,
    everything,
    files,
    kustomization,
    manifests,
    secret_references,
    workload,
    workloads,
)
from tests.unit.deploy.known_variables import known_to
from tests.unit.deploy.test_compose_files import (
    SECRETS,
    assert_crawls_under_back_pressure,
    stages_of,
)

KEDA_SCHEMA = json.loads(Path(__file__).with_name("keda.schema.json").read_text())
# The oldest that should work, and what the schemas of today know.
KUBERNETES_VERSIONS = ["1.30", "1.37"]
# A process of the API opens so many, whatever its settings (api/app.py).
API_CONNECTIONS = 4
EXAMPLE = BASE / "secrets.env.example"

each_workload = pytest.mark.parametrize("one", workloads(), ids=str)
each_directory = pytest.mark.parametrize("directory", [BASE, *OVERLAYS], ids=lambda path: path.name)


def check_schema(version: str, *paths: Path) -> subprocess.CompletedProcess[str]:
    """Strictly: a field that Kubernetes does not know is refused. Each object is named."""
    command = [sys.executable, "-m", "kubernetes_validate", "--strict", "-k", version]
    output = subprocess.PIPE
    return subprocess.run(
        [*command, *paths], stdout=output, stderr=subprocess.STDOUT, text=True, timeout=25
    )


@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
def test_every_object_is_valid_by_the_schemas_of_kubernetes(version):
    checked = {one.path for one in everything() if not one.is_kedas}
    done = check_schema(version, *sorted(checked))
    assert done.returncode == 0, done.stdout
    objects = [one for one in everything() if not one.is_kedas]
    assert done.stdout.count("INFO ") == len(objects), done.stdout


def test_the_schemas_refuse_a_mistake(tmp_path):
    wrong = tmp_path / "worker-service.yaml"
    text = (BASE / "worker-service.yaml").read_text()
    wrong.write_text(text.replace("terminationGracePeriodSeconds", "terminationGraceSeconds"))
    done = check_schema(KUBERNETES_VERSIONS[0], wrong)
    assert done.returncode == 1
    assert "terminationGraceSeconds" in done.stdout


@pytest.mark.parametrize("one", [one for one in everything() if one.is_kedas], ids=str)
def test_kedas_objects_are_as_its_documentation_says(one):
    jsonschema.validate(one.content, KEDA_SCHEMA)


@each_directory
def test_all_that_is_listed_exists_and_all_that_exists_is_listed(directory):
    content = kustomization(directory)
    listed = {directory / name for name in content["resources"]}
    listed |= {directory / name for name in content.get("configurations", [])}
    assert all(path.exists() for path in listed)
    here = {path for path in directory.glob("*.yaml") if path.name != KUSTOMIZATION}
    assert here == {path for path in listed if path.suffix}
    for path in listed:
        if not path.suffix:
            assert (path / KUSTOMIZATION).is_file()


@each_directory
def test_patches_meet_something(directory):
    deployments = {one.name for one in workloads() if one.kind == "Deployment"}
    for patch in kustomization(directory).get("patches", []):
        assert patch["target"]["kind"] == "Deployment"
        assert patch["target"].get("name") in {None, *deployments}
        for step in yaml.safe_load(patch["patch"]):
            assert step == {"op": "remove", "path": "/spec/replicas"}


def test_overlays_put_their_objects_into_the_namespace_of_the_base():
    namespace = kustomization(BASE)["namespace"]
    (made,) = [one for one in manifests(BASE) if one.kind == "Namespace"]
    assert made.name == namespace
    for overlay in OVERLAYS:
        for one in manifests(overlay):
            assert one.content["metadata"]["namespace"] == namespace


def test_secrets_come_from_a_file_that_git_ignores_and_the_example_has_no_secret():
    (generator,) = kustomization(BASE)["secretGenerator"]
    (file,) = generator["envs"]
    ignored = subprocess.run(
        ["git", "check-ignore", "--quiet", str(BASE / file)], cwd=ROOT, timeout=10
    )
    assert ignored.returncode == 0
    assert EXAMPLE.name == f"{file}.example"
    example = dict(
        line.split("=", 1) for line in EXAMPLE.read_text().splitlines() if line[:1] not in ("", "#")
    )
    wanted = {reference for one in everything() for reference in secret_references(one.content)}
    assert {name for name, _ in wanted} == {generator["name"]}
    assert {key for _, key in wanted} == set(example)
    assert example.pop("FAKTORY_WEB_USER") == "keda"
    assert example == dict.fromkeys(("FAKTORY_PASSWORD", "API_KEYS", "CRAWL_STATE"), "")


def test_keda_is_told_the_hashed_name_of_the_secret():
    overlay = DIRECTORY / "overlays" / "keda"
    (name,) = kustomization(overlay)["configurations"]
    (reference,) = yaml.safe_load((overlay / name).read_text())["nameReference"]
    assert reference["kind"] == "Secret"
    assert reference["fieldSpecs"][0]["path"] == "spec/secretTargetRef/name"


@each_workload
def test_a_pod_can_do_little_beyond_its_work(one):
    assert one.pod["automountServiceAccountToken"] is False
    assert one.pod["enableServiceLinks"] is False
    assert one.pod["securityContext"]["runAsNonRoot"] is True
    assert one.pod["securityContext"]["runAsUser"] == 10001
    assert one.pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert one.container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


@each_workload
def test_a_pod_is_limited_and_watched(one):
    resources = one.container["resources"]
    assert set(resources["requests"]) == set(resources["limits"]) == {"cpu", "memory"}
    assert "readinessProbe" in one.container


@each_workload
def test_a_pod_is_what_compose_runs(one):
    path = WORKER if one.name == "worker-service" else SERVER
    service = services(path, **SECRETS)[one.name]
    assert one.container["command"] == service.command
    assert one.pod["securityContext"]["runAsUser"] == service.user[0]
    assert one.pod["terminationGracePeriodSeconds"] == service.stop_grace_s
    # Addresses and secrets differ; what both set as a plain value is the same.
    both = set(one.environment) & set(service.environment) - {"FAKTORY_URL"}
    files = {name for name in service.environment if name.endswith("_FILE")}
    assert {name: one.environment[name] for name in both} == {
        name: service.environment[name] for name in both
    }
    assert both
    named = {entry["name"] for entry in one.container["env"]}
    assert set(service.environment) - named - files == set()


@each_workload
def test_nobody_is_told_what_he_does_not_read(one):
    names = [entry["name"] for entry in one.container["env"]]
    used = {
        found for value in one.environment.values() for found in re.findall(r"\$\((\w+)\)", value)
    }
    assert set(names) - used <= known_to(one.name)
    # Kubernetes replaces $(NAME) only by what stands before it.
    for position, entry in enumerate(one.container["env"]):
        for found in re.findall(r"\$\((\w+)\)", entry.get("value", "")):
            assert found in names[:position]


def test_the_worker_is_given_longer_to_stop_than_it_takes():
    worker = workload("worker-service")
    timeout = WorkerSettings.model_fields["shutdown_timeout"].default
    timeout = float(worker.environment.get("WORKER_SHUTDOWN_TIMEOUT", timeout))
    assert worker.pod["terminationGracePeriodSeconds"] >= timeout + 10


def test_the_worker_crawls_and_slows_fetching_while_pages_wait_to_be_parsed():
    handlers = workload("worker-service").environment["WORKER_HANDLERS"]
    assert_crawls_under_back_pressure(stages_of(WorkerSettings(handlers=handlers)))


def test_the_api_and_the_workers_have_one_state_of_crawls():
    references = {
        name: {key for _, key in secret_references(workload(name).content)}
        for name in ("api-service", "worker-service")
    }
    assert all("CRAWL_STATE" in keys for keys in references.values()), references


@each_workload
def test_volumes_are_there(one):
    claims = {claim["metadata"]["name"] for claim in one.spec.get("volumeClaimTemplates", [])}
    declared = {volume["name"] for volume in one.pod.get("volumes", [])} | claims
    assert {mount["name"] for mount in one.container["volumeMounts"]} == declared
    made = {other.name for other in manifests(BASE) if other.kind == "PersistentVolumeClaim"}
    for volume in one.pod.get("volumes", []):
        if "persistentVolumeClaim" in volume:
            assert volume["persistentVolumeClaim"]["claimName"] in made


@pytest.mark.parametrize("one", [one for one in manifests(BASE) if one.kind == "Service"], ids=str)
def test_a_service_leads_to_ports_of_its_pods(one):
    target = workload(one.name)
    assert one.spec["selector"].items() <= target.pod_labels.items()
    ports = {port["name"]: port["containerPort"] for port in target.container["ports"]}
    for port in one.spec["ports"]:
        assert ports[port["targetPort"]] == port["port"]


@each_workload
def test_selectors_select_their_own_pods_and_no_others(one):
    labels = one.spec["selector"]["matchLabels"]
    assert [other.name for other in workloads() if labels.items() <= other.pod_labels.items()] == [
        one.name
    ]


def test_disruption_budgets_and_policies_meet_their_pods():
    for one in everything():
        if one.kind == "PodDisruptionBudget":
            selector = one.spec["selector"]["matchLabels"]
        elif one.kind == "NetworkPolicy":
            selector = one.spec["podSelector"].get("matchLabels", {})
        else:
            continue
        assert any(selector.items() <= other.pod_labels.items() for other in workloads()), one


def test_policies_open_ports_that_there_are():
    names = {port["name"] for one in workloads() for port in one.container.get("ports", [])}
    for one in everything():
        if one.kind == "NetworkPolicy":
            for rule in one.spec.get("ingress", []):
                assert {port["port"] for port in rule["ports"]} <= names


def scaled(directory: Path) -> list[tuple[str, int]]:
    """What is scaled there, and to how many at the most."""
    found = []
    for one in manifests(directory):
        if one.kind == "HorizontalPodAutoscaler":
            found.append((one.spec["scaleTargetRef"]["name"], one.spec["maxReplicas"]))
        elif one.kind == "ScaledObject":
            found.append((one.spec["scaleTargetRef"]["name"], one.spec["maxReplicaCount"]))
    return found


@pytest.mark.parametrize("overlay", OVERLAYS, ids=lambda path: path.name)
def test_the_largest_fleet_stays_below_what_faktory_takes(overlay):
    replicas = {one.name: one.spec["replicas"] for one in workloads()} | dict(scaled(overlay))
    per_worker = int(workload("worker-service").environment["FAKTORY_CONNECTIONS"])
    in_all = replicas["worker-service"] * per_worker + replicas["api-service"] * API_CONNECTIONS
    assert in_all < FLEET_CONNECTIONS


@pytest.mark.parametrize("overlay", OVERLAYS, ids=lambda path: path.name)
def test_what_is_scaled_has_no_fixed_number(overlay):
    removed = {patch["target"].get("name") for patch in kustomization(overlay)["patches"]}
    for name, _ in scaled(overlay):
        assert workload(name).kind == "Deployment"
        assert removed & {None, name}


def test_the_image_has_the_version_of_this_project():
    (image,) = kustomization(BASE)["images"]
    used = {one.container["image"] for one in workloads()}
    assert used == {image["name"], "contribsys/faktory:1.10.0"}
    assert used - {image["name"]} == {services(SERVER, **SECRETS)["faktory"].definition["image"]}
    assert f'version = "{image["newTag"]}"' in (ROOT / "pyproject.toml").read_text()


@each_directory
def test_kubectl_renders_it(directory, tmp_path):
    """Where there is a kubectl. What it makes of the files is valid too, and whole."""
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl here: the other tests look at the files themselves")
    copy = tmp_path / "kubernetes"
    shutil.copytree(DIRECTORY, copy)
    shutil.copy(EXAMPLE, copy / "base" / "secrets.env")
    command = ["kubectl", "kustomize", str(copy / directory.relative_to(DIRECTORY))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=25)
    assert done.returncode == 0, done.stderr
    rendered = [Manifest(directory, content) for content in yaml.safe_load_all(done.stdout)]
    own = manifests(BASE) + ([] if directory == BASE else manifests(directory))
    assert len(rendered) == len(own) + 1
    (secret,) = [one for one in rendered if one.kind == "Secret"]
    references = {name for one in rendered for name, _ in secret_references(one.content)}
    assert references == {secret.name}
    for one in rendered:
        if one.kind == "Deployment" and one.name in dict(scaled(directory)):
            assert "replicas" not in one.spec
    files_checked = tmp_path / "rendered.yaml"
    files_checked.write_text(
        yaml.safe_dump_all([one.content for one in rendered if not one.is_kedas])
    )
    valid = check_schema(KUBERNETES_VERSIONS[0], files_checked)
    assert valid.returncode == 0, valid.stdout


def test_files_lists_the_files_of_a_kustomization():
    assert BASE / "faktory.yaml" in files(BASE)
    assert all(path.suffix == ".yaml" for overlay in OVERLAYS for path in files(overlay))
