"""`bench-hosts` as a user runs it, with small webs: hosts that are made, and removed."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.support.hosts import need_hosts

pytestmark = [pytest.mark.slow, pytest.mark.proof, pytest.mark.timeout(300)]


async def test_two_hosts_crawl_and_fetch_and_what_came_of_it_is_written_down(tmp_path: Path):
    need_hosts()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "loadtest", "bench-hosts", "--rounds", "1"),
        *("--cells", "crawl/2,jobs/2,manners", "--pages", "60", "--out", str(tmp_path)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    runs = json.loads((tmp_path / "hosts.json").read_text())["runs"]
    assert {(run["cell"], run["side"]): run["values"]["pages"] for run in runs} == {
        ("crawl/2", "ours"): 120,
        ("jobs/2", "ours"): 120,
        ("manners", "polite"): 60,
        ("manners", "impolite"): 60,
    }
    assert all(run["values"]["twice"] == 0 for run in runs)
