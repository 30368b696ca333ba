"""Crawls as the API tells them."""

from typing import Any

from manyhands.cli.figures import Snapshot, make_snapshot
from manyhands.shared.crawl.store.model import COUNTERS, STATE_COUNTERS

METRICS = """\
# TYPE manyhands_worker_crawl_state gauge
manyhands_worker_crawl_state{figure="ready",process_id="crawl-0",process_type="crawl"} 3.0
manyhands_worker_crawl_state{figure="waiting",process_id="crawl-0",process_type="crawl"} 40.0
manyhands_worker_crawl_state{figure="busy",process_id="crawl-0",process_type="crawl"} 7.0
manyhands_worker_crawl_state{figure="ready",process_id="crawl-1",process_type="crawl"} 2.0
manyhands_worker_slots{process_id="crawl-1",process_type="crawl"} 200.0
"""


def view(state: str = "running", **counts: int) -> dict[str, Any]:
    """Of GET /crawls/{crawl}: all counts are 0 but these."""
    all_counts = dict.fromkeys(COUNTERS, 0) | counts
    return {
        "id": 1,
        "state": state,
        "reason": "",
        "limited_by": "politeness: 40 domains, all waiting for their next time",
        "urls": {name: all_counts[name] for name in STATE_COUNTERS},
        "counters": {
            name: count
            for name, count in all_counts.items()
            if name not in (*STATE_COUNTERS, "changes")
        },
        "pages_per_s": None,
        "mean_pages_per_s": None,
        "started_at": "2030-01-31T12:00:00Z",
        "ended_at": "2030-01-31T12:00:10.500000Z" if state == "completed" else None,
        "labels": {},
        "left_out": {},
        "put_off": [],
        "held": [],
        "seed_file_refused": 0,
        "notes": [],
    }


def error(reason: str, count: int = 1) -> dict[str, Any]:
    return {
        "reason": reason,
        "count": count,
        "sample_url": "https://a.example/x",
        "last_at": "2030-01-31T12:00:05Z",
    }


def queue(name: str, size: int, latency_s: float = 0.0) -> dict[str, Any]:
    return {"name": name, "size": size, "latency_s": latency_s, "paused": False}


def snapshot(
    state: str = "running",
    *,
    errors: tuple[dict[str, Any], ...] = (),
    queues: tuple[dict[str, Any], ...] = (),
    metrics: str = "",
    **counts: int,
) -> Snapshot:
    return make_snapshot(view(state, **counts), errors, queues, metrics)
