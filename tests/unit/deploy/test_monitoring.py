"""Prometheus and Grafana ask for figures that the API has, at the place where it has them."""

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from api.metrics import ApiMetrics, server_figures
from tests.support.compose import ALL_IN_ONE, MONITORING, SERVER, read

DIRECTORY = MONITORING.parent
METRIC = re.compile(r"\b(?:api|faktory)_\w+")
INFO: dict[str, Any] = {
    "faktory": {"queues": {"default": 1}, "sets": {"dead": 1}},
    "server": {"connections": 1},
}


def exported() -> set[str]:
    """The names of all samples that /metrics can have."""
    metrics = ApiMetrics()
    metrics.requests.labels("single", "202").inc()
    metrics.jobs.labels("single").inc()
    families = [*metrics.registry.collect(), *server_figures(INFO, {"default": 0.1})]
    return {sample.name for family in families for sample in family.samples}


def dashboard_expressions() -> Iterator[str]:
    dashboard = json.loads((DIRECTORY / "grafana/dashboards/manyhands.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield target["expr"]


def alert_expressions() -> Iterator[str]:
    content = yaml.safe_load((DIRECTORY / "prometheus/alerts.yml").read_text())
    for group in content["groups"]:
        for rule in group["rules"]:
            assert rule["annotations"]["summary"]
            yield rule["expr"]


def metrics_in(expression: str) -> set[str]:
    return set(METRIC.findall(expression.replace('"api-service"', "")))


def test_every_panel_shows_figures_that_there_are():
    for expression in dashboard_expressions():
        assert metrics_in(expression), expression
        assert metrics_in(expression) <= exported()


def test_every_alert_looks_at_figures_that_there_are():
    for expression in alert_expressions():
        assert metrics_in(expression) <= exported()
        assert metrics_in(expression) or "up{" in expression


def test_panels_do_not_overlap():
    dashboard = json.loads((DIRECTORY / "grafana/dashboards/manyhands.json").read_text())
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
        (job,) = content["scrape_configs"]
        (target,) = job["static_configs"][0]["targets"]
        name, port = target.split(":")
        api = read(path)["services"][name]
        assert api["environment"]["API_BIND"].endswith(f":{port}")
        assert content["rule_files"] == ["alerts.yml"]


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
    dashboard = json.loads((DIRECTORY / "grafana/dashboards/manyhands.json").read_text())
    assert {panel["datasource"]["uid"] for panel in dashboard["panels"]} == {source["uid"]}
    providers = yaml.safe_load(
        (DIRECTORY / "grafana/provisioning/dashboards/manyhands.yml").read_text()
    )
    path = providers["providers"][0]["options"]["path"]
    grafana = read(MONITORING)["services"]["grafana"]
    assert f"./grafana/dashboards:{path}:ro" in grafana["volumes"]
    home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home == f"{path}/manyhands.json"
