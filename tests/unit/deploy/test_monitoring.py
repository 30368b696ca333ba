"""Prometheus and Grafana ask for figures that there are, where they are."""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from manyhands.api.crawls.look import CrawlLook, Look
from manyhands.api.metrics import ApiMetrics, crawl_figures, look_figures, server_figures
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.model import COUNTERS
from manyhands.worker.crawl import metrics as crawl_metrics
from manyhands.worker.process.figures import FAMILIES
from manyhands.worker.service.families import filled
from manyhands.worker.service.link import FIGURES_S, Figures, Sample
from manyhands.worker.sinks import sinks
from manyhands.worker.supervision.metrics import ServiceMetrics
from tests.support.compose import ALL_IN_ONE, MONITORING, ROOT, SERVER, read
from tests.support.service_status import child, service, stage

DIRECTORY = MONITORING.parent
DASHBOARDS = sorted((DIRECTORY / "grafana" / "dashboards").glob("*.json"))
METRIC = re.compile(r"\b(?:(?:api|faktory|manyhands)_\w+|crawls|fetch_jobs)\b")
COUNTED = dict.fromkeys(COUNTERS, 1)
INFO: dict[str, Any] = {
    "faktory": {"queues": {"default": 1}, "sets": {"dead": 1}},
    "server": {"connections": 1},
}


@cache
def exported() -> dict[str, set[str]]:
    """Name → labels of all samples that the /metrics of the API and of a worker can have."""
    metrics = ApiMetrics()
    metrics.requests.labels("single", "202").inc()
    metrics.jobs.labels("single").inc()
    families = [
        *metrics.registry.collect(),
        *server_figures(INFO, {"default": 0.1}),
        crawl_figures({CrawlState.RUNNING: 1}),
        *look_figures(Look({0: CrawlLook(COUNTED), 7: CrawlLook(COUNTED)})),
        *text_string_to_metric_families(worker_text()),
    ]
    return {sample.name: set(sample.labels) for family in families for sample in family.samples}


def worker_text() -> str:
    """Of a worker service with one sample of everything."""
    figures = [
        filled(made, [Sample(list(made.label_names), 1, [1] * (len(made.bounds) + 1))])
        for made in (*FAMILIES, *crawl_metrics.FAMILIES, *sinks.FAMILIES)
    ]
    metrics = ServiceMetrics()
    metrics.keep("fetch", "fetch-0", 1, Figures(figures))
    status = service(
        child("fetch-0", stages=[stage("fetch")]),
        memory_limit_bytes=1,
        pressure_events={"fetch": {"slowed": 1}},
    )
    return metrics.text(status).decode()


def dashboards() -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in DASHBOARDS]


def dashboard_expressions() -> Iterator[str]:
    for dashboard in dashboards():
        for panel in panels(dashboard):
            for target in panel["targets"]:
                yield target["expr"]


def panels(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    """Without the headings of rows."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def alert_expressions() -> Iterator[str]:
    content = yaml.safe_load((DIRECTORY / "prometheus/alerts.yml").read_text())
    for group in content["groups"]:
        for rule in group["rules"]:
            assert rule["annotations"]["summary"]
            assert rule["annotations"]["runbook"] == f"docs/RUNBOOK.md#{rule['alert'].lower()}"
            yield rule["expr"]


def metrics_in(expression: str) -> set[str]:
    return set(METRIC.findall(expression.replace('"api-service"', "")))


def labels_in(expression: str) -> set[str]:
    """Those that it groups by or looks for."""
    grouped = {
        name.strip()
        for names in re.findall(r"\bby \(([^)]*)\)", expression)
        for name in names.split(",")
    }
    return grouped | set(re.findall(r"[{,]\s*(\w+)\s*=", expression))


def assert_exported(expression: str) -> None:
    names = metrics_in(expression)
    assert names <= set(exported()), expression
    # Prometheus itself adds where it found it.
    known = {"instance", "job"}.union(*(exported()[name] for name in names))
    assert labels_in(expression) <= known, expression


def test_every_panel_shows_figures_that_there_are():
    for expression in dashboard_expressions():
        assert metrics_in(expression), expression
        assert_exported(expression)


def test_every_alert_looks_at_figures_that_there_are():
    for expression in alert_expressions():
        assert metrics_in(expression) or "up{" in expression
        assert_exported(expression)


def test_the_run_book_has_a_section_for_every_alert():
    text = (ROOT / "docs" / "RUNBOOK.md").read_text()
    content = yaml.safe_load((DIRECTORY / "prometheus/alerts.yml").read_text())
    alerts = [rule["alert"] for group in content["groups"] for rule in group["rules"]]
    assert re.findall(r"^### (\w+)$", text, re.MULTILINE) == alerts


def test_the_rows_of_the_crawls_dashboard_answer_what_people_ask():
    (dashboard,) = [one for one in dashboards() if one["uid"] == "manyhands-crawl"]
    rows = [panel["title"] for panel in dashboard["panels"] if panel["type"] == "row"]
    assert rows == ["Is it going?", "How long still?", "What holds it up?"]


def test_a_label_that_there_is_not_would_be_found():
    with pytest.raises(AssertionError):
        assert_exported("sum by (color) (rate(manyhands_worker_jobs_total[1m]))")
    with pytest.raises(AssertionError):
        assert_exported('manyhands_worker_jobs_total{jobtype="add", color="red"}')


@pytest.mark.parametrize("dashboard", dashboards(), ids=lambda dashboard: dashboard["uid"])
def test_panels_do_not_overlap(dashboard):
    taken = [
        (x, y)
        for place in (panel["gridPos"] for panel in dashboard["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(taken)) == len(taken)
    assert max(x for x, _ in taken) < 24


def test_prometheus_reads_the_api_where_each_file_runs_it():
    for path, config in ((ALL_IN_ONE, "all-in-one.yml"), (SERVER, "server.yml")):
        (mounted,) = read(path)["services"]["prometheus"]["volumes"]
        assert mounted.startswith(f"./deploy/monitoring/prometheus/{config}:")
        content = yaml.safe_load((DIRECTORY / "prometheus" / config).read_text())
        (job,) = [one for one in content["scrape_configs"] if one["job_name"] == "api-service"]
        (target,) = job["static_configs"][0]["targets"]
        name, port = target.split(":")
        api = read(path)["services"][name]
        assert api["environment"]["API_BIND"].endswith(f":{port}")
        assert content["rule_files"] == ["alerts.yml"]


def test_prometheus_reads_the_workers_that_run_beside_it():
    content = yaml.safe_load((DIRECTORY / "prometheus/all-in-one.yml").read_text())
    (job,) = [one for one in content["scrape_configs"] if one["job_name"] == "worker-service"]
    (found,) = job["dns_sd_configs"]
    (name,) = found["names"]
    bind = read(ALL_IN_ONE)["services"][name]["environment"]["WORKER_HTTP_BIND"]
    assert bind == f"0.0.0.0:{found['port']}"
    # The one interval of all figures.
    assert content["global"]["scrape_interval"] == f"{FIGURES_S:.0f}s"


def test_alerts_are_of_services_that_prometheus_reads():
    content = yaml.safe_load((DIRECTORY / "prometheus/all-in-one.yml").read_text())
    read_jobs = {one["job_name"] for one in content["scrape_configs"]}
    looked_for = {name for text in alert_expressions() for name in re.findall('job="(.*?)"', text)}
    # Nothing is said of the machine itself: what is too little depends on it.
    assert looked_for == read_jobs - {"node"}


def test_prometheus_reads_the_machine_that_it_runs_on():
    for path, config in ((ALL_IN_ONE, "all-in-one.yml"), (SERVER, "server.yml")):
        content = yaml.safe_load((DIRECTORY / "prometheus" / config).read_text())
        (job,) = [one for one in content["scrape_configs"] if one["job_name"] == "node"]
        (target,) = job["static_configs"][0]["targets"]
        assert target == "node-exporter:9100"
        assert read(path)["services"]["node-exporter"]["profiles"] == ["monitoring"]
    exporter = read(MONITORING)["services"]["node-exporter"]
    assert exporter["volumes"] == ["/:/host:ro,rslave"]
    assert exporter["command"] == ["--path.rootfs=/host"]
    assert "ports" not in exporter


def test_prometheus_has_a_key_where_the_api_wants_one():
    content = yaml.safe_load((DIRECTORY / "prometheus/server.yml").read_text())
    file = content["scrape_configs"][0]["authorization"]["credentials_file"]
    (secret,) = read(SERVER)["services"]["prometheus"]["secrets"]
    assert file == f"/run/secrets/{secret}"
    assert read(SERVER)["secrets"][secret] == {"environment": "METRICS_API_KEY"}


def test_grafana_finds_prometheus_and_the_dashboard():
    sources = yaml.safe_load(
        (DIRECTORY / "grafana/provisioning/datasources/prometheus.yml").read_text()
    )
    (source,) = sources["datasources"]
    assert source["url"] == "http://prometheus:9090"
    for dashboard in dashboards():
        assert {panel["datasource"]["uid"] for panel in panels(dashboard)} == {source["uid"]}
    assert len({dashboard["uid"] for dashboard in dashboards()}) == len(DASHBOARDS) == 3
    providers = yaml.safe_load(
        (DIRECTORY / "grafana/provisioning/dashboards/manyhands.yml").read_text()
    )
    path = providers["providers"][0]["options"]["path"]
    grafana = read(MONITORING)["services"]["grafana"]
    assert f"./grafana/dashboards:{path}:ro" in grafana["volumes"]
    home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home == f"{path}/manyhands.json"
