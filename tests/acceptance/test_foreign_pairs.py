"""Two strangers over our broker: what one client of another language pushes, one of yet another
consumes. No code of ours is between them but the broker."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from devservers import BrokerServer
from loadtest.lab.consumers import build_go_peer, build_node_peer, build_rust_peer
from tests.acceptance.scale import PAIR_JOBS
from tests.integration.test_interop import BUILD_TIMEOUT_S, built, running
from tests.support.broker_state import BrokerState
from tests.support.waiting import eventually

TEXT = "Grüße <&> 🐈"
SLOTS = 4
PYTHON = [sys.executable, "-m", "tests.support.python_peer"]
# How each is called; a build that was made before is quick.
PEERS: dict[str, Callable[[], list[str]]] = {
    "pypi": lambda: [*PYTHON, "pypi"],
    "pyfaktory": lambda: [*PYTHON, "pyfaktory"],
    "go": lambda: [str(built(build_go_peer))],
    "node": lambda: [shutil.which("node") or "node", str(built(build_node_peer))],
    "rust": lambda: [str(built(partial(build_rust_peer, is_optimised=False)))],
}
# Clients that do not show it to a handler.
WITHOUT_CUSTOM = ("pypi", "pyfaktory")
MARKS = {"node": pytest.mark.node, "rust": pytest.mark.rust}


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerServer]:
    with BrokerServer() as server:
        yield server


def send(producer: str, queue: str, broker: BrokerServer) -> None:
    options = ["--queue", queue, "--name", producer, "--count", str(PAIR_JOBS)]
    subprocess.run(
        [*PEERS[producer](), "send", *options],
        env=os.environ | {"FAKTORY_URL": broker.url},
        check=True,
        timeout=120,
    )


def is_here(peer: str) -> bool:
    """In CI all are, or it is a failure."""
    tool = {"rust": "cargo", "node": "npm"}.get(peer)
    return tool is None or bool(os.environ.get("CI")) or shutil.which(tool) is not None


@pytest.mark.timeout(BUILD_TIMEOUT_S)
@pytest.mark.parametrize(
    "consumer", [pytest.param(name, marks=MARKS.get(name, ())) for name in PEERS]
)
async def test_jobs_of_every_other_client_are_consumed_once_each_and_intact(
    consumer: str,
    broker: BrokerServer,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    """One queue for each consumer: four producers are four pairs, told apart by an argument."""
    queue, record = f"to-{consumer}", tmp_path / "record"
    producers = [name for name in PEERS if name != consumer and is_here(name)]
    for producer in producers:
        send(producer, queue, broker)
    state = BrokerState(broker)
    pushed = {job["jid"]: job for job in state.queue(queue)}
    count = len(producers) * PAIR_JOBS
    assert len(pushed) == count
    before, failures = state.processed, state.failures

    options = ["--queue", queue, "--slots", str(SLOTS), "--record", str(record)]
    with running([*PEERS[consumer](), "consume", *options], broker, tmp_path / "log"):
        await eventually(lambda: state.processed == before + count and state.is_empty, 120)

    lines: list[dict[str, Any]] = [json.loads(line) for line in record.read_text().splitlines()]
    assert Counter(line["jid"] for line in lines) == Counter(pushed.keys())
    wanted = Counter((name, str(n), TEXT) for name in producers for n in range(PAIR_JOBS))
    assert Counter(tuple(line["args"]) for line in lines) == wanted
    for line in lines:
        n = int(line["args"][1])
        assert pushed[line["jid"]].get("custom") == ({"n": n} if n % 2 == 0 else None)
        if consumer not in WITHOUT_CUSTOM:
            assert line["n"] == (n if n % 2 == 0 else None)
    assert state.failures == failures
    record_property("pairs", len(producers))
    record_property("jobs of each", PAIR_JOBS)
