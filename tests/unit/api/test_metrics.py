"""Figures: of one process, of all of them, and of the broker."""

import asyncio
from pathlib import Path
from typing import Any

import orjson
from prometheus_client.parser import text_string_to_metric_families

from manyhands.api.metrics import ApiMetrics, as_text, server_figures, set_sizes, snapshot, summed
from manyhands.api.siblings import answering, ask_all

OUR_INFO: dict[str, Any] = {
    "faktory": {
        "queues": {"default": 3, "fetch.01": 0},
        "sets": {"scheduled": 1, "retries": 2, "dead": 3, "working": 4},
        "total_processed": 10,
        "total_failures": 2,
    },
    "server": {"connections": 5, "command_count": 99},
}
# As a Faktory 1.10 says it.
FAKTORY_INFO: dict[str, Any] = {
    "faktory": {
        "queues": {"default": 3},
        "tasks": {
            "Busy": {"reclaimed": 0, "size": 4},
            "Dead": {"cycles": 1, "enqueued": 0, "size": 3},
            "Retries": {"size": 2},
            "Scheduled": {"size": 1},
            "Workers": {"size": 7},
        },
        "total_processed": 10,
        "total_failures": 2,
    },
    "server": {"connections": 5, "command_count": 99},
}


def samples(text: bytes) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def some_figures(batches: int, held: int = 0) -> ApiMetrics:
    metrics = ApiMetrics()
    for _ in range(batches):
        metrics.batch_pushed(100, 0.004, 0.02)
    metrics.requests.labels("single", "202").inc(batches * 100)
    metrics.jobs.labels("single").inc(batches * 100)
    metrics.held.set_function(lambda: held)
    return metrics


def test_a_process_counts_requests_jobs_and_batches():
    found = samples(as_text(summed([snapshot(some_figures(2, held=7).registry)])))
    assert found["api_requests_total", "single", "202"] == 200
    assert found["api_jobs_accepted_total", "single"] == 200
    assert found["api_jobs_held",] == 7
    assert found["api_batch_size_bucket", "50.0"] == 0
    assert found["api_batch_size_bucket", "100.0"] == 2
    assert found["api_batch_size_sum",] == 200
    assert found["api_batch_wait_seconds_bucket", "0.005"] == 2
    assert found["api_push_seconds_count",] == 2
    assert not any("created" in name for name, *_ in found)


def test_the_figures_of_several_processes_are_added():
    one, two = some_figures(1, held=3), some_figures(4, held=5)
    two.requests.labels("/stats", "200").inc()
    found = samples(as_text(summed([snapshot(one.registry), snapshot(two.registry)])))
    assert found["api_requests_total", "single", "202"] == 500
    assert found["api_requests_total", "/stats", "200"] == 1
    assert found["api_jobs_held",] == 8
    assert found["api_batch_size_bucket", "+Inf"] == 5
    assert found["api_batch_size_count",] == 5


def test_a_snapshot_survives_json():
    figures = snapshot(some_figures(3).registry)
    assert as_text(summed([orjson.loads(orjson.dumps(figures))])) == as_text(summed([figures]))


def test_the_brokers_figures_are_told_whichever_it_is():
    for info in (OUR_INFO, FAKTORY_INFO):
        found = samples(as_text(server_figures(info, {"default": 1.5})))
        assert found["faktory_up",] == 1
        assert found["faktory_queue_jobs", "default"] == 3
        assert found["faktory_queue_latency_seconds", "default"] == 1.5
        assert found["faktory_set_jobs", "scheduled"] == 1
        assert found["faktory_set_jobs", "retries"] == 2
        assert found["faktory_set_jobs", "dead"] == 3
        assert found["faktory_set_jobs", "working"] == 4
        assert found["faktory_connections",] == 5
        assert found["faktory_processed_total",] == 10
        assert found["faktory_failures_total",] == 2
        assert found["faktory_commands_total",] == 99


def test_a_broker_that_is_away_is_a_figure_too():
    assert samples(as_text(server_figures(None, {}))) == {("faktory_up",): 0}


def test_a_server_that_tells_little_is_told_of_with_little():
    assert samples(as_text(server_figures({}, {})))["faktory_up",] == 1
    assert set_sizes({"faktory": {"queues": None, "tasks": None}}) == {}


async def test_whoever_is_asked_asks_all_processes_that_are_alive(tmp_path: Path, monkeypatch):
    one, two = some_figures(1), some_figures(2)
    async with answering(tmp_path, one.registry):
        # A process of its own has an id of its own.
        monkeypatch.setattr("manyhands.api.siblings.os.getpid", lambda: 1)
        async with answering(tmp_path, two.registry):
            assert sum_of_batches(await ask_all(tmp_path)) == 3
        assert sum_of_batches(await ask_all(tmp_path)) == 1
    assert await ask_all(tmp_path) == []


async def test_a_process_that_is_dead_or_silent_or_mad_is_left_out(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("manyhands.api.siblings.ANSWER_WITHIN_S", 0.05)
    (tmp_path / "1.sock").touch()
    silent = await asyncio.start_unix_server(say_nothing, tmp_path / "2.sock")
    mad = await asyncio.start_unix_server(say_nonsense, tmp_path / "3.sock")
    async with silent, mad, answering(tmp_path, some_figures(5).registry):
        assert sum_of_batches(await ask_all(tmp_path)) == 5


async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


async def say_nonsense(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"{nonsense")
    writer.close()


def sum_of_batches(snapshots: list[Any]) -> float:
    return samples(as_text(summed(snapshots)))["api_batch_size_count",]
