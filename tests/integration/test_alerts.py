"""The alerts, by promtool: each fires on its fault, when its time has come, and none on a healthy
service. That the figures are there: tests/acceptance/test_monitoring.py."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from devservers import promtool
from tests.support.compose import MONITORING

# Seconds of work, and minutes on a machine that has other work.
pytestmark = [pytest.mark.prometheus, pytest.mark.timeout(600)]

DIRECTORY = MONITORING.parent / "prometheus"
ALERTS = DIRECTORY / "alerts.yml"
STEP = "15s"
# An hour of steps; promtool's notation: from a number, by so much each step, so many steps.
HOUR = 240
W = "manyhands_worker_"
OF_A = '{instance="a:7421", process_type="crawl", process_id="crawl-0"}'


def steady(value: float) -> str:
    return f"{value}+0x{HOUR}"


def growing(per_step: float, start: float = 0) -> str:
    return f"{start}+{per_step}x{HOUR}"


def labelled(name: str, *more: str) -> str:
    """Of the one process that there is."""
    return f"{W}{name}{OF_A[:-1]}{''.join(f', {label}' for label in more)}}}"


# Every series that an alert looks at, as it is while all goes well.
LAG = 'manyhands_crawl_frontier_lag_seconds{job="api-service", crawl="7"}'
DUE = 'manyhands_crawl_due{job="api-service", crawl="7"}'
PAGES = 'manyhands_crawl_pages_total{job="api-service", crawl="7"}'
LOST = 'manyhands_crawl_lost_in_parsing_total{job="api-service", crawl="7"}'
DEAD = 'faktory_set_jobs{job="api-service", set="dead"}'
QUEUED = 'faktory_queue_jobs{job="api-service", queue="default"}'
WAITED = 'faktory_queue_latency_seconds{job="api-service", queue="default"}'
PROCESSED = 'faktory_processed_total{job="api-service"}'
UP_API = 'up{job="api-service", instance="api:3000"}'
UP_WORKER = 'up{job="worker-service", instance="a:7421"}'
FAKTORY_UP = 'faktory_up{job="api-service"}'
CONNECTIONS = 'faktory_connections{job="api-service"}'
READY = f'{W}ready{{instance="a:7421"}}'
LOOPING = labelled("child_crash_looping")
HANGS = labelled("child_hangs_total")
LOOP_LAG = labelled("loop_lag_seconds", 'stat="p99"')
COMMITS_FAILED = labelled("commits_failed_total")
DONE = labelled("jobs_total", 'jobtype="parse_pages"', 'outcome="done"')
FAILED = labelled("jobs_total", 'jobtype="parse_pages"', 'outcome="failed"')
OPEN, MOST_OPEN = labelled("open_fds"), labelled("max_fds")
PACE = f'{W}stage_pace{{instance="a:7421", process_type="crawl", stage="crawl"}}'
SINK = labelled("sink_oldest_pending_seconds")
CLAIMED = labelled("crawl_leases_total", 'move="claimed"')
TAKEN_OVER = labelled("crawl_leases_total", 'move="taken over"')
GIVEN_BACK = labelled("crawl_leases_total", 'move="given back"')
SHARDS = labelled("crawl_state", 'figure="shards"')
HEALTHY = {
    UP_API: steady(1),
    UP_WORKER: steady(1),
    FAKTORY_UP: steady(1),
    CONNECTIONS: steady(96),
    WAITED: steady(3),
    QUEUED: steady(40),
    PROCESSED: growing(500),
    DEAD: steady(2),
    READY: steady(1),
    LOOPING: steady(0),
    HANGS: steady(1),
    LOOP_LAG: steady(0.01),
    COMMITS_FAILED: steady(3),
    DONE: growing(500),
    FAILED: growing(5),
    OPEN: steady(200),
    MOST_OPEN: steady(65536),
    PACE: steady(0.8),
    SINK: steady(0.5),
    # Few seconds late now and then, while a wave of new domains is taken in.
    LAG: f"0+0x60 200-5x40 0+0x{HOUR}",
    DUE: steady(3),
    PAGES: growing(900),
    LOST: steady(0),
    # All workers were restarted one by one: every shard moved twice.
    CLAIMED: f"64+0x60 192+0x{HOUR}",
    TAKEN_OVER: steady(0),
    GIVEN_BACK: f"0+0x60 128+0x{HOUR}",
    SHARDS: steady(64),
}
# By alert: what is otherwise, a time at which it does not fire yet, and one at which it does.
Fault = tuple[dict[str, str], str, str]
FAULTS: dict[str, Fault] = {
    "ApiIsDown": ({UP_API: steady(0)}, "45s", "2m"),
    "FaktoryIsDown": ({FAKTORY_UP: steady(0)}, "45s", "2m"),
    "TooManyConnections": ({CONNECTIONS: steady(1900)}, "4m", "6m"),
    "JobsWaitLong": ({WAITED: growing(15)}, "15m", "25m"),
    "NothingIsDone": ({PROCESSED: steady(500)}, "3m", "12m"),
    "JobsDie": ({DEAD: f"2+0x40 3+0x{HOUR}"}, "5m", "15m"),
    "WorkerIsDown": ({UP_WORKER: steady(0)}, "45s", "2m"),
    "WorkerIsNotReady": ({READY: steady(0)}, "4m", "6m"),
    "WorkerCrashLoop": ({LOOPING: f"0+0x20 1+0x{HOUR}"}, "4m", "6m"),
    "WorkerChildrenHang": ({HANGS: f"1+0x20 2+0x{HOUR}"}, "4m", "7m"),
    "WorkerLoopIsLate": ({LOOP_LAG: steady(0.8)}, "4m", "6m"),
    "WorkerResultsAreLost": ({COMMITS_FAILED: f"3+0x20 4+0x{HOUR}"}, "4m", "7m"),
    "WorkerJobsFail": ({FAILED: growing(600)}, "8m", "12m"),
    "WorkerNeedsMoreFiles": ({OPEN: steady(60000)}, "4m", "6m"),
    "WorkerIsHeldBack": ({PACE: steady(0.2)}, "25m", "35m"),
    "CrawlStandsStill": ({PAGES: steady(900), LAG: growing(15)}, "6m", "20m"),
    "CrawlLosesPagesInParsing": ({LOST: f"0+0x20 16+0x{HOUR}"}, "4m", "7m"),
    "SinkIsBehind": ({SINK: growing(15)}, "5m", "9m"),
    "CrawlLagGrows": ({LAG: growing(6)}, "15m", "40m"),
    # Each shard moves every five seconds.
    "LeasesFlap": ({TAKEN_OVER: growing(192)}, "0s", "17m"),
}


def promtool_says(tmp_path: Path, tests: list[dict[str, Any]]) -> subprocess.CompletedProcess[str]:
    (tmp_path / "alerts.yml").write_bytes(ALERTS.read_bytes())
    file = tmp_path / "tests.yml"
    file.write_text(
        yaml.safe_dump({"rule_files": ["alerts.yml"], "evaluation_interval": STEP, "tests": tests})
    )
    output = subprocess.PIPE
    return subprocess.run(
        [promtool(), "test", "rules", file],
        stdout=output,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
    )


def watched(name: str, series: dict[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "interval": STEP,
        "input_series": [{"series": one, "values": values} for one, values in series.items()],
    }


def firing_at(name: str, series: dict[str, str], before: str, after: str) -> dict[str, Any]:
    """A test that expects none of that alert at first and one later, whatever its labels."""
    expression = f'count(ALERTS{{alertname="{name}", alertstate="firing"}}) or vector(0)'
    return watched(name, series) | {
        "promql_expr_test": [
            {
                "expr": expression,
                "eval_time": time,
                "exp_samples": [{"labels": "{}", "value": number}],
            }
            for time, number in ((before, 0), (after, 1))
        ]
    }


def all_alerts() -> list[str]:
    content = yaml.safe_load(ALERTS.read_text())
    return [rule["alert"] for group in content["groups"] for rule in group["rules"]]


def test_every_alert_has_a_fault():
    assert list(FAULTS) == all_alerts()


def test_each_alert_fires_on_its_fault_and_not_before_its_time(tmp_path):
    tests = [
        firing_at(name, HEALTHY | otherwise, before, after)
        for name, (otherwise, before, after) in FAULTS.items()
    ]
    done = promtool_says(tmp_path, tests)
    assert done.returncode == 0, done.stdout


def test_no_alert_fires_in_a_healthy_hour(tmp_path):
    healthy = watched("a healthy hour", HEALTHY)
    healthy["promql_expr_test"] = [
        {"expr": 'ALERTS{alertstate="firing"}', "eval_time": f"{minute}m", "exp_samples": []}
        for minute in range(60)
    ]
    done = promtool_says(tmp_path, [healthy])
    assert done.returncode == 0, done.stdout


def test_an_alert_that_does_not_fire_would_be_found(tmp_path):
    done = promtool_says(tmp_path, [firing_at("ApiIsDown", HEALTHY, "1m", "2m")])
    assert done.returncode != 0
    assert "ApiIsDown" in done.stdout
