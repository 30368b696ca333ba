"""The README's first command, with smaller numbers."""

import subprocess
import sys

import pytest

from tests.support.broker_command import ROOT


@pytest.mark.timeout(90)
def test_the_demo_takes_jobs_and_pages_through_everything():
    command = [sys.executable, "-m", "cli", "demo", "--jobs", "500", "--pages", "40"]
    ended = subprocess.run(
        [*command, "--slots", "50"], cwd=ROOT, capture_output=True, text=True, timeout=80
    )
    said = " ".join(ended.stderr.split())
    assert ended.returncode == 0, said
    assert "500 `add` jobs posted and done" in said
    assert "40 pages fetched, parsed and on disk" in said
    assert "200 links; 0 jobs failed" in said


@pytest.mark.parametrize("wrong", [("--jobs", "0"), ("--pages", "some")])
def test_a_number_that_is_none_is_refused(wrong):
    command = [sys.executable, "-m", "cli", "demo", *wrong]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert ended.returncode == 2
    assert wrong[0] in ended.stderr
