"""The Kubernetes manifests: valid by the schemas of Kubernetes, whole, and in accord with the
compose files. No cluster is needed."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from manyhands.shared.settings import ApiSettings, WorkerSettings
from manyhands.worker.source.lane_plan import FLEET_CONNECTIONS
from tests.support.compose import ROOT, SERVER, WORKER, services
from tests.support.manifests import (
    BASE,
    DIRECTORY,
    KUBERNETES_VERSIONS,
    KUSTOMIZATION,
    OVERLAYS,
    check_schema,
    everything,
    files,
    kustomization,
    manifests,
    patched_workload,
    secret_references,
    workload,
    workloads,
)
from tests.unit.deploy.known_variables import FAKTORY_IMAGE, known_to, ours
from tests.unit.deploy.test_compose_files import (
    SECRETS,
    assert_crawls_under_back_pressure,
    stages_of,
)

KEDA_SCHEMA = json.loads(Path(__file__).with_name("keda.schema.json").read_text())
# A process of the API opens so many, whatever its settings (api/app.py).
API_CONNECTIONS = 4
EXAMPLE = BASE / "secrets.env.example"
EXAMPLE_OVERLAY = DIRECTORY / "overlays" / "example"
SCALING = [DIRECTORY / "overlays" / name for name in ("hpa", "keda")]
# What stands before a word of the documentation that is a variable's name.
DOCUMENTED_IN = ("CONFIGURATION.md", "SINKS.md", "DEPLOYMENT.md")

each_workload = pytest.mark.parametrize("one", workloads(), ids=str)
each_directory = pytest.mark.parametrize("directory", [BASE, *OVERLAYS], ids=lambda path: path.name)


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
    listed |= {directory / one["path"] for one in content.get("patches", []) if "path" in one}
    listed |= {directory / name for name in content.get("configurations", [])}
    assert all(path.exists() for path in listed)
    here = {path for path in directory.glob("*.yaml") if path.name != KUSTOMIZATION}
    assert here == {path for path in listed if path.suffix}
    for path in listed:
        if not path.suffix:
            assert (path / KUSTOMIZATION).is_file()


@each_directory
def test_patches_meet_something(directory):
    known = {(one.kind, one.name) for one in workloads()}
    for patch in kustomization(directory).get("patches", []):
        if "path" in patch:
            one = yaml.safe_load((directory / patch["path"]).read_text())
            assert (one["kind"], one["metadata"]["name"]) in known
            continue
        assert (patch["target"]["kind"], patch["target"]["name"]) in known
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
    patch = yaml.safe_load((EXAMPLE_OVERLAY / "object-storage.yaml").read_text())
    asking = [*(one.content for one in everything()), patch]
    wanted = {reference for content in asking for reference in secret_references(content)}
    assert {name for name, _ in wanted} == {generator["name"]}
    assert {key for _, key in wanted} == set(example)
    assert example.pop("FAKTORY_WEB_USER") == "keda"
    of_the_bucket = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
    assert example == dict.fromkeys(
        {"FAKTORY_PASSWORD", "API_KEYS", "CRAWL_STATE"} | of_the_bucket, ""
    )


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


def test_the_patch_of_the_example_sets_what_a_worker_reads():
    """In a container of the same name, or it would be one more."""
    patch = EXAMPLE_OVERLAY / "object-storage.yaml"
    (container,) = yaml.safe_load(patch.read_text())["spec"]["template"]["spec"]["containers"]
    assert container["name"] == workload("worker-service").container["name"]
    assert set(patched_workload(patch)) <= known_to("worker-service")


def test_every_variable_of_the_manifests_is_documented():
    named = {entry["name"] for one in workloads() for entry in one.container["env"]}
    named |= set(patched_workload(EXAMPLE_OVERLAY / "object-storage.yaml"))
    named -= FAKTORY_IMAGE - ours()
    text = "".join((ROOT / "docs" / name).read_text() for name in DOCUMENTED_IN)
    assert named - set(re.findall(r"`(\w+)`", text)) == set()


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


def test_each_worker_writes_to_a_volume_of_its_own():
    worker = workload("worker-service")
    assert worker.kind == "StatefulSet"
    (claim,) = worker.spec["volumeClaimTemplates"]
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    (mount,) = [
        mount
        for mount in worker.container["volumeMounts"]
        if mount["name"] == claim["metadata"]["name"]
    ]
    patched = patched_workload(EXAMPLE_OVERLAY / "object-storage.yaml")["SINKS"]
    assert f":{mount['mountPath']}/" in worker.environment["SINKS"]
    assert patched is not None
    assert f"?spool={mount['mountPath']}/" in patched
    # One at a time would wait for pods that are not needed.
    assert worker.spec["podManagementPolicy"] == "Parallel"


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


def test_what_there_are_several_of_is_not_evicted_all_at_once():
    budgets = {one.name for one in manifests(BASE) if one.kind == "PodDisruptionBudget"}
    assert budgets == {one.name for one in workloads() if one.spec["replicas"] > 1}


# Of PostgreSQL and of Kafka.
STORES = {5432, 9092}
PRIVATE = [
    *("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8"),
    *("169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"),
]


def outgoing() -> list[dict[str, Any]]:
    """The rules for what may be reached; two policies for one pod allow what either does."""
    return [
        rule
        for one in everything()
        if one.kind == "NetworkPolicy"
        for rule in one.spec.get("egress", [])
    ]


def test_of_the_cluster_only_the_broker_names_and_stores_can_be_reached():
    wanted = {
        "faktory": {7419},
        "kube-system": {53},
        "manyhands/stores": STORES,
        "10.20.30.0/24": STORES,
    }
    told: dict[str, set[int]] = {}
    for rule in outgoing():
        ports = {port["port"] for port in rule.get("ports", [])}
        for to in rule["to"]:
            if "ipBlock" in to and not ports:
                # The internet, which crawls are for.
                assert to["ipBlock"] in (
                    {"cidr": "0.0.0.0/0", "except": PRIVATE},
                    {"cidr": "2000::/3"},
                )
                continue
            (where,) = to.values()
            labels = where.get("matchLabels", {})
            name = where.get("cidr") or labels.get("kubernetes.io/metadata.name")
            name = name or labels.get("app.kubernetes.io/name") or next(iter(labels))
            told.setdefault(name, set()).update(ports)
    assert told == wanted


def test_all_that_talks_may_only_reach_what_a_policy_names():
    limited = set()
    for one in manifests(BASE):
        if one.kind == "NetworkPolicy" and "Egress" in one.spec["policyTypes"]:
            selector = one.spec["podSelector"]
            limited |= {*selector.get("matchLabels", {}).values()}
            for expression in selector.get("matchExpressions", []):
                limited |= {*expression["values"]}
    assert limited == {"api-service", "worker-service"}


def test_the_label_of_stores_is_that_of_the_namespace():
    (namespace,) = [one for one in manifests(BASE) if one.kind == "Namespace"]
    assert namespace.content["metadata"]["labels"]["manyhands/stores"] == "true"


def test_the_ingress_leads_to_the_api_with_tls():
    (ingress,) = [one for one in manifests(EXAMPLE_OVERLAY) if one.kind == "Ingress"]
    (rule,) = ingress.spec["rules"]
    (path,) = rule["http"]["paths"]
    service = path["backend"]["service"]
    assert service == {"name": "api-service", "port": {"name": "http"}}
    assert [one["hosts"] for one in ingress.spec["tls"]] == [[rule["host"]]]
    size = ingress.content["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-body-size"]
    assert int(size.removesuffix("m")) * 2**20 == ApiSettings().max_body_bytes


def test_policies_open_ports_that_there_are():
    names = {port["name"] for one in workloads() for port in one.container.get("ports", [])}
    for one in everything():
        if one.kind == "NetworkPolicy":
            for rule in one.spec.get("ingress", []):
                assert {port["port"] for port in rule["ports"]} <= names


def test_prometheus_is_told_where_the_workers_metrics_are():
    worker = workload("worker-service")
    annotations = worker.spec["template"]["metadata"]["annotations"]
    (port,) = worker.container["ports"]
    assert annotations == {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(port["containerPort"]),
    }


def scaled(directory: Path) -> list[tuple[str, int]]:
    """What is scaled there, and to how many at the most."""
    found = []
    for one in manifests(directory):
        if one.kind == "HorizontalPodAutoscaler":
            found.append((one.spec["scaleTargetRef"]["name"], one.spec["maxReplicas"]))
        elif one.kind == "ScaledObject":
            found.append((one.spec["scaleTargetRef"]["name"], one.spec["maxReplicaCount"]))
    return found


@pytest.mark.parametrize("overlay", SCALING, ids=lambda path: path.name)
def test_the_largest_fleet_stays_below_what_faktory_takes(overlay):
    replicas = {one.name: one.spec["replicas"] for one in workloads()} | dict(scaled(overlay))
    per_worker = int(workload("worker-service").environment["FAKTORY_CONNECTIONS"])
    in_all = replicas["worker-service"] * per_worker + replicas["api-service"] * API_CONNECTIONS
    assert in_all < FLEET_CONNECTIONS


@pytest.mark.parametrize("overlay", SCALING, ids=lambda path: path.name)
def test_what_is_scaled_has_no_fixed_number(overlay):
    removed = {patch["target"]["name"] for patch in kustomization(overlay)["patches"]}
    assert removed == {name for name, _ in scaled(overlay)}
    for one in manifests(overlay):
        if "scaleTargetRef" in one.content.get("spec", {}):
            target = one.spec["scaleTargetRef"]
            assert target["kind"] == workload(target["name"]).kind


def test_by_processor_time_there_are_two_to_ten_pods():
    (overlay,) = [one for one in SCALING if one.name == "hpa"]
    for one in manifests(overlay):
        assert (one.spec["minReplicas"], one.spec["maxReplicas"]) == (2, 10)
        (metric,) = one.spec["metrics"]
        assert metric["resource"]["target"] == {"type": "Utilization", "averageUtilization": 70}


def test_keda_looks_at_waiting_jobs_and_at_the_lag_of_crawls():
    (overlay,) = [one for one in SCALING if one.name == "keda"]
    (scaled_object,) = [one for one in manifests(overlay) if one.kind == "ScaledObject"]
    by_type = {trigger["type"]: trigger for trigger in scaled_object.spec["triggers"]}
    assert by_type.keys() == {"metrics-api", "prometheus"}
    # A lag is not shared out among the pods, as jobs are.
    assert by_type["prometheus"]["metricType"] == "Value"
    assert by_type["prometheus"]["metadata"]["query"] == "max(crawl_lag_seconds)"


def test_the_image_has_the_version_of_this_project():
    (image,) = kustomization(BASE)["images"]
    used = {one.container["image"] for one in workloads()}
    assert used == {image["name"], "contribsys/faktory:1.10.0"}
    assert used - {image["name"]} == {services(SERVER, **SECRETS)["faktory"].definition["image"]}
    assert f'version = "{image["newTag"]}"' in (ROOT / "pyproject.toml").read_text()


def test_files_lists_the_files_of_a_kustomization():
    assert BASE / "faktory.yaml" in files(BASE)
    assert all(path.suffix == ".yaml" for overlay in OVERLAYS for path in files(overlay))
