"""Whatever a stranger sends: no crash, nobody waits for half a second, and memory does not grow.

Each fuzzer is a process of its own, so that its memory is that of what it tries and nothing else. A
proof has other inputs each time, and its seed is written down; `python -m tests.fuzz` makes them
again.
"""

import json
import secrets
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.scale import FUZZ_SECONDS, IS_PROOF
from tests.fuzz.__main__ import TARGETS

# Servers start, a last batch goes on, and a machine may be busy.
MARGIN_S = 120
SEED = 17

pytestmark = pytest.mark.timeout(FUZZ_SECONDS + 2 * MARGIN_S)


@pytest.mark.parametrize("target", TARGETS)
def test_no_input_crashes_it_keeps_others_waiting_or_stays_in_memory(
    target: str, tmp_path: Path, record_property: Callable[[str, object], None]
):
    seed = secrets.randbelow(2**31) if IS_PROOF else SEED
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.fuzz", target, "--out", str(tmp_path)),
            *("--seconds", str(FUZZ_SECONDS), "--seed", str(seed)),
        ],
        capture_output=True,
        text=True,
        timeout=FUZZ_SECONDS + MARGIN_S,
    )
    said = done.stdout.splitlines()
    # One that took the process with it left no word, but its input.
    assert said, f"ended with {done.returncode} on {_left(tmp_path)}: {done.stderr[-2000:]}"
    found = json.loads(said[-1])
    record_property("inputs", found["inputs"])
    record_property("slowest ms", round(found["slowest_s"] * 1000))
    record_property("growth MB", round(found["grown_bytes"] / 2**20, 1))
    record_property("most MB", round(found["peak_rss"] / 2**20))
    record_property("seed", seed)
    assert not found["failure"], f"{found['failure']}: {_left(tmp_path)}"
    assert found["inputs"] > 0


def _left(directory: Path) -> str:
    return "".join(file.read_text()[:5000] for file in directory.glob("*.json"))
