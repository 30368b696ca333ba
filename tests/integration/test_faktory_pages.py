"""What deployments ask Faktory's web port for: health without a password, the backlog with one."""

from urllib.parse import urlsplit

import httpx
import pytest

from devservers import FaktoryServer
from manyhands.shared.faktory.client import Client
from manyhands.shared.faktory.handshake import parse_url
from manyhands.shared.jobs import Job
from tests.support.compose import ALL_IN_ONE, SERVER, services
from tests.support.manifests import OVERLAYS, manifests, workload

PASSWORD = "5ec7e7"
JOBS = 3


@pytest.fixture(scope="module")
def locked():
    with FaktoryServer(password=PASSWORD) as server:
        yield server


@pytest.fixture(scope="module")
def web(locked):
    with httpx.Client(base_url=locked.web_url, trust_env=False, timeout=20) as client:
        yield client


def health_paths() -> set[str]:
    """Of the compose files and of the pod's probes."""
    urls = [
        services(path, API_KEYS="unused")["faktory"].health_command[-1]
        for path in (ALL_IN_ONE, SERVER)
    ]
    container = workload("faktory").container
    probes = [container[name]["httpGet"]["path"] for name in ("readinessProbe", "livenessProbe")]
    return {urlsplit(url).path for url in urls} | set(probes)


def test_health_needs_no_password(web):
    for path in health_paths():
        assert web.get(path).status_code == 200, path


async def test_keda_finds_the_backlog_where_it_looks(locked, web):
    (scaled,) = [
        one for overlay in OVERLAYS for one in manifests(overlay) if one.kind == "ScaledObject"
    ]
    # The other one asks the API for the lag of the crawls.
    trigger, _ = scaled.spec["triggers"]
    async with Client(parse_url(locked.url)) as client:
        queues = ["default", "parse", "fetch.00"]
        jobs = [Job(jobtype="add", args=[1, 2], queue=queue) for queue in queues]
        assert await client.push_bulk(jobs) == {}
    path = urlsplit(trigger["metadata"]["url"]).path
    assert web.get(path).status_code == 401
    found = web.get(path, auth=("keda", PASSWORD)).json()
    for part in trigger["metadata"]["valueLocation"].split("."):
        found = found[part]
    assert found == JOBS
