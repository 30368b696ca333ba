"""Who asks a worker how it is asks at the port where it answers, for a page that there is."""

import re
from urllib.parse import urlsplit

import pytest

from manyhands.worker.supervision.http import Pages
from manyhands.worker.supervision.metrics import ServiceMetrics
from tests.support.compose import ALL_IN_ONE, WORKER, services
from tests.support.manifests import BASE, manifests, workload
from tests.support.service_status import service
from tests.unit.deploy.test_compose_files import SECRETS

BIND = "0.0.0.0:7421"


def pages() -> set[str]:
    return set(Pages(service, ServiceMetrics(), "0.0.0.0").paths)


@pytest.mark.parametrize("path", [ALL_IN_ONE, WORKER], ids=lambda path: path.name)
def test_compose_asks_whether_the_worker_is_ready(path):
    worker = services(path, **SECRETS)["worker-service"]
    (url,) = re.findall(r'"(http://[^"]*)"', worker.health_command[-1])
    assert worker.environment["WORKER_HTTP_BIND"] == BIND
    assert urlsplit(url).netloc == f"127.0.0.1:{BIND.rpartition(':')[2]}"
    assert urlsplit(url).path == "/readyz"
    assert urlsplit(url).path in pages()


@pytest.mark.parametrize(
    ("probe", "page"),
    [("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")],
)
def test_kubernetes_asks_for_pages_that_there_are(probe, page):
    worker = workload("worker-service")
    (port,) = worker.container["ports"]
    asked = worker.container[probe]["httpGet"]
    assert asked == {"path": page, "port": port["name"]}
    assert page in pages()
    assert worker.environment["WORKER_HTTP_BIND"] == f"0.0.0.0:{port['containerPort']}"


def test_a_process_that_hangs_is_replaced_before_the_pod_is():
    """Liveness fails while one hangs; the supervisor must have the time to mend it."""
    probe = workload("worker-service").container["livenessProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 60


def test_prometheus_is_let_in_to_the_workers_port():
    (policy,) = [
        one
        for one in manifests(BASE)
        if one.kind == "NetworkPolicy" and one.name == "worker-service"
    ]
    (rule,) = policy.spec["ingress"]
    assert {port["port"] for port in rule["ports"]} == {"http"}
    (sender,) = rule["from"]
    assert sender["namespaceSelector"]["matchLabels"] == {
        "kubernetes.io/metadata.name": "monitoring"
    }
