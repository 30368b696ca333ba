"""`--against` as a user runs it: two checkouts, of which one is made for it and gone afterwards."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from loadtest.against.checkouts import other_checkout
from loadtest.lib.errors import RunError

pytestmark = pytest.mark.timeout(120)


def test_the_other_checkout_has_that_product_and_its_own_load_test():
    with other_checkout("HEAD") as directory:
        assert (directory / "worker" / "__main__.py").is_file()
        assert (directory / "loadtest" / "one_run.py").is_file()
        assert (directory / "loadtest" / "go" / "web" / "main.go").is_file()
    assert not directory.exists()


def test_a_revision_that_is_none_is_named():
    with pytest.raises(RunError, match="no-such-revision"), other_checkout("no-such-revision"):
        pass


@pytest.mark.proof
async def test_both_checkouts_fetch_in_turns_and_are_compared(tmp_path: Path):
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "loadtest", "bench-fetch", "--against", "HEAD", "--rounds", "1"),
        *("--cells", "http/keep/20k", "--seconds", "0.2", "--out", str(tmp_path)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    runs = json.loads((tmp_path / "fetch-against.json").read_text())["runs"]
    assert {run["checkout"] for run in runs} == {"new", "old"}
    assert all(run["values"]["pages"] > 0 for run in runs)
    assert "| pages/s |" in (tmp_path / "fetch-against.md").read_text()
