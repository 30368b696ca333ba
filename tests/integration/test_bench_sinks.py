"""`bench-sinks` as a user runs it, as small as can be: sinks that are written and read back."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from loadtest.bench.sinks.cells import COST_SIDES, MADE_UP, SERVERS, WITHOUT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


async def bench_sinks(out: Path, *arguments: str) -> dict[str, dict[str, Any]]:
    """The runs that it wrote down, by side."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "loadtest", "bench-sinks", "--rounds", "1"),
        *(*arguments, "--out", str(out)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    written = json.loads((out / "sinks.json").read_text())
    return {run["side"]: run for run in written["runs"]}


@pytest.mark.proof
async def test_made_up_sinks_are_written_at_once_and_in_turns(tmp_path):
    runs = await bench_sinks(tmp_path, "--cells", MADE_UP.key, "--batches", "2")
    assert set(runs) == set(MADE_UP.sides)
    # No flush can be quicker than its sink.
    least = {"sleep:20": 20, "sleep:50": 50, "sleep:100": 100, "parallel": 100, "sequential": 170}
    assert all(runs[side]["values"]["ms"] >= ms for side, ms in least.items())
    assert "1.15 × the slowest alone" in (tmp_path / "sinks.md").read_text()


@pytest.mark.proof
@pytest.mark.jvm
async def test_the_real_servers_have_every_record_once(tmp_path):
    runs = await bench_sinks(tmp_path, "--cells", SERVERS.key, "--batches", "2")
    assert set(runs) == set(SERVERS.sides)
    assert all(run["error"] is None and run["values"]["ms"] > 0 for run in runs.values())


@pytest.mark.proof
async def test_a_crawl_is_in_every_sink_and_what_that_costs_is_written_down(tmp_path):
    runs = await bench_sinks(tmp_path, "--cells", "crawl/plain20", "--pages", "60")
    assert set(runs) == set(COST_SIDES)
    for side, run in runs.items():
        assert run["error"] is None
        assert run["values"]["pages"] == 60
        assert run["values"]["us"] > 0
        assert run["values"]["us_end"] > 0
        assert side in ("with", "postgres") or run["values"]["us_server"] == 0
    roles = ("broker", "supervisor", "crawl", "parse", "other")
    values = runs[WITHOUT]["values"]
    assert sum(values[f"us_{role}"] for role in roles) == pytest.approx(values["us"])
    assert "1.3 × the CPU per page" in (tmp_path / "sinks.md").read_text()
