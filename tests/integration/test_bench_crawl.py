"""`bench-crawl` as a user runs it, with a small web: crawlers that are started and watched."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from loadtest.bench.crawl.cells import OURS, PEERS, PYTHON_PROFILE
from loadtest.bench.crawl.measure import measure_crawl
from loadtest.bench.crawl.profiles import LOOKED_AT, by_process

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


async def bench_crawl(out: Path, cells: str) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "loadtest", "bench-crawl", "--rounds", "1"),
        *("--cells", cells, "--pages", "100", "--out", str(out)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return process.returncode, said.decode()


@pytest.mark.proof
async def test_all_crawl_the_same_web_and_what_it_costs_is_written_down(tmp_path):
    code, said = await bench_crawl(tmp_path, "plain20")
    assert code == 0, said
    written = json.loads((tmp_path / "crawl.json").read_text())
    runs = {run["side"]: run for run in written["runs"]}
    assert set(runs) == {OURS, *PEERS}
    for run in runs.values():
        assert run["error"] is None
        assert run["values"]["pages"] == 100
        assert run["values"]["cpu_s"] > 0
    values = runs["ours"]["values"]
    roles = ("broker", "supervisor", "crawl", "parse", "other")
    assert sum(values[f"us_{role}"] for role in roles) == pytest.approx(values["cpu_s"] / 100 * 1e6)
    assert "5 × Scrapy" in (tmp_path / "crawl.md").read_text()


@pytest.mark.proof
def test_a_profile_names_functions_of_every_process():
    run = measure_crawl(PYTHON_PROFILE.with_pages(100), "ours", 1)
    assert run.error is None
    shares = by_process(run.values)
    assert set(shares) == set(LOOKED_AT)
    assert all(sum(of_process.values()) == pytest.approx(1.0) for of_process in shares.values())
    assert any(label.startswith("broker/manager.py ") for label in shares["broker"])
    assert any(label.startswith("worker/crawl/") for label in shares["crawl"])
    assert any(label.startswith("worker/pages/html.py ") for label in shares["parse"])
