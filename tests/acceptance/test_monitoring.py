"""A real Prometheus with the shipped settings reads real services while they crawl: every figure
that dashboards and alerts name is there, and no alert fires."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from devservers import BrokerServer, PrometheusServer
from devservers.api import ApiServer
from loadtest.web.synthetic_web import WebSpec
from tests.conftest import StartWorker
from tests.support.compose import MONITORING
from tests.support.crawling import Crawling
from tests.support.service_pages import url_of
from tests.support.waiting import eventually
from tests.unit.deploy.test_monitoring import (
    alert_expressions,
    dashboard_expressions,
    metrics_in,
)

pytestmark = [pytest.mark.timeout(240), pytest.mark.prometheus]

DIRECTORY = MONITORING.parent / "prometheus"
# Slow enough to be still under way when everything has been asked.
WEB = WebSpec(hosts=10, pages=4_000)
DELAY_S = 0.5
SCRAPED_WITHIN_S = 90.0
# Of Grafana.
VARIABLES = {"$crawl": ".+"}


def config(api: ApiServer, worker_url: str) -> str:
    """That of the all-in-one file, but for the addresses, and faster."""
    content: dict[str, Any] = yaml.safe_load((DIRECTORY / "all-in-one.yml").read_text())
    targets = {"api-service": api.url, "worker-service": worker_url}
    content["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    # The machine is not what this is about.
    content["scrape_configs"] = [
        job for job in content["scrape_configs"] if job["job_name"] in targets
    ]
    for job in content["scrape_configs"]:
        target = targets.pop(job["job_name"]).removeprefix("http://")
        job.pop("dns_sd_configs", None)
        job["static_configs"] = [{"targets": [target]}]
    assert not targets
    return yaml.safe_dump(content)


class Asked:
    def __init__(self, url: str) -> None:
        self._url = url

    def results(self, expression: str) -> list[Any]:
        for variable, value in VARIABLES.items():
            expression = expression.replace(variable, value)
        answer = self._get("/api/v1/query", query=expression)
        assert answer.status_code == 200, (expression, answer.text)
        return list(answer.json()["data"]["result"])

    def _get(self, path: str, **params: str) -> httpx.Response:
        return httpx.get(f"{self._url}{path}", params=params, trust_env=False, timeout=30)

    def rules(self) -> list[dict[str, Any]]:
        groups = self._get("/api/v1/rules").raise_for_status().json()["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]


@pytest.fixture
def api(broker_process: BrokerServer, crawling: Crawling) -> Iterator[ApiServer]:
    settings = {"CRAWL_STATE": crawling.place, "CRAWL_SHARDS": str(crawling.shards)}
    with ApiServer(broker_process, settings=settings) as api:
        yield api


def post_job(api: ApiServer) -> None:
    httpx.post(f"{api.url}/jobs/add", json={"a": 1, "b": 2}, trust_env=False).raise_for_status()


@pytest.mark.parametrize("server", ["broker_process"], indirect=True)
async def test_every_figure_of_dashboards_and_alerts_is_there_and_no_alert_fires(
    server: BrokerServer,
    crawling: Crawling,
    api: ApiServer,
    start_worker: StartWorker,
    tmp_path: Path,
) -> None:
    settings = crawling.settings(SINKS=f"jsonl:{tmp_path / 'pages.ndjson'}")
    worker = start_worker(server.url, **settings)
    crawl = crawling.start(delay_s=DELAY_S)
    # Of no stage here: something waits.
    post_job(api)
    await crawling.has_pages(crawl, 10)

    with PrometheusServer(config(api, url_of(worker)), [DIRECTORY / "alerts.yml"]) as prometheus:
        asked = Asked(prometheus.url)
        expressions = [*dashboard_expressions(), *alert_expressions()]
        names = {name for expression in expressions for name in metrics_in(expression)}
        assert len(names) > 60

        def missing() -> set[str]:
            return {name for name in names if not asked.results(name)}

        def is_complete() -> bool:
            missing_at_last.append(missing())
            return not missing_at_last[-1]

        missing_at_last: list[set[str]] = []
        try:
            await eventually(is_complete, SCRAPED_WITHIN_S)
        except AssertionError:
            raise AssertionError(f"not in any scrape: {sorted(missing_at_last[-1])}") from None
        # Panels that divide and compare have something to show, too.
        for expression in dashboard_expressions():
            await eventually(lambda shown=expression: asked.results(shown), 30, f"no {expression}")  # type: ignore[misc]
        rules = asked.rules()
        assert len(rules) == len(list(alert_expressions()))
        assert {rule["health"] for rule in rules} == {"ok"}
        assert [rule["name"] for rule in rules if rule["state"] == "firing"] == []
        assert not crawling.crawl(crawl).state.is_final
    worker.terminate()
    assert await worker.ended(40) == 0, worker.stderr
