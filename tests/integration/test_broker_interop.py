"""Faktory's own load program on our broker; other clients are in test_interop.py."""

import os
import subprocess

import pytest

from devservers import BrokerServer, build
from tests.support.broker_state import BrokerState

JOBS = 5_000
THREADS = 20
BUILD_TIMEOUT_S = 900


@pytest.mark.timeout(BUILD_TIMEOUT_S)
def test_the_load_program_of_faktory_runs_without_an_error(
    broker_process: BrokerServer,
) -> None:
    """Half of its threads push, the others fetch, acknowledge, and fail one job in a hundred. It
    prints what goes wrong and goes on."""
    program = build() / "faktory-load"
    done = subprocess.run(
        [program, str(JOBS), str(THREADS)],
        env=os.environ | {"FAKTORY_URL": broker_process.url},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )

    assert done.returncode == 0, done
    first, last = (done.stdout + done.stderr).splitlines()
    assert first == f"Running loadtest with {JOBS} jobs and {THREADS} threads"
    words = last.split()
    pushes, pops = int(words[1]), int(words[4])
    assert last.startswith(f"Processed {pushes} pushes and {pops} pops in ")
    state = BrokerState(broker_process)
    info = state.info()
    assert pushes >= JOBS
    assert info["total_processed"] <= pops
    assert info["total_processed"] + info["total_enqueued"] == pushes
    assert info["sets"]["working"] == 0
    assert info["sets"]["retries"] == info["total_failures"]
