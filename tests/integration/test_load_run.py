"""`python -m loadtest run` as a user runs it, and what it writes."""

import asyncio
import csv
import json
import sys
from pathlib import Path

import pytest

HARD = ("--min-jobs-per-s", "1e9", "--max-p95-ms", "60000")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


async def load_run(out: Path, *options: str) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "loadtest", "run", "--users", "10", "--seconds", "3"),
        *("--out", str(out), *options),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return process.returncode, said.decode()


def job_counts(out: Path) -> dict[str, int]:
    with (out / "locust_stats.csv").open() as file:
        rows = list(csv.DictReader(file))
    return {row["Name"]: int(row["Request Count"]) for row in rows if row["Type"] == "JOBS"}


async def test_a_load_test_reports_jobs_accepted_and_done_and_the_target_that_it_missed(tmp_path):
    """It fails by a target that nothing meets, and does all else all the same."""
    code, said = await load_run(tmp_path, "--shape", "burst", *HARD)
    assert code == 1, said
    assert "FAILED: " in said and "the target is 1,000,000,000" in said
    assert "p95" not in said.partition("FAILED")[2]
    summary = json.loads((tmp_path / "summary.json").read_text())
    total = summary["verdict"]["rows"][-1]
    assert total["accepted"] == total["completed"] > 0
    assert total["to_done"]["p50_ms"] <= total["to_done"]["p99_ms"]
    assert len(summary["failures"]) == 1
    counts = job_counts(tmp_path)
    assert counts["accepted"] == total["accepted"]
    # Locust may end a user before it has its answer: then a job is done that nobody counts.
    assert counts["completed"] >= total["accepted"]
    assert f"{total['accepted']:,} jobs accepted" in said
    assert "<html" in (tmp_path / "locust.html").read_text()
    assert (tmp_path / "locust_stats_history.csv").exists()
