"""The example: a foreign program queues files, our worker counts their words; on both servers."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson

from tests.conftest import ON_BOTH_SERVERS, AnyServer, StartWorker
from tests.support.waiting import eventually
from tests.support.worker_process import ROOT, AnyState, WorkerUnderTest

pytestmark = ON_BOTH_SERVERS


def produce(server: AnyServer, *files: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "examples.producer", *map(str, files)],
        cwd=ROOT,
        env=os.environ | {"FAKTORY_URL": server.url},
        check=True,
        timeout=50,
    )


async def stop(worker: WorkerUnderTest) -> None:
    """In order: a FETCH that is left behind would take a job of the next test to nobody."""
    worker.terminate()
    assert await worker.ended() == 0


async def test_files_that_any_program_queues_are_counted(
    server: AnyServer, state: AnyState, start_worker: StartWorker, tmp_path: Path
) -> None:
    texts = [tmp_path / f"text-{n}" for n in range(5)]
    for text in texts:
        text.write_text("many hands make light work\n" * 2_500)
    records = tmp_path / "words.ndjson"
    produce(server, *texts)

    worker = start_worker(
        server.url, WORKER_HANDLERS="examples.word_count", SINKS=f"jsonl:{records}"
    )

    # Each file, and three parts of it.
    await eventually(lambda: state.processed == 5 * 4 and state.is_empty, 30)
    found: list[dict[str, Any]] = [orjson.loads(line) for line in records.read_bytes().splitlines()]
    assert sum(record["words"] for record in found) == 5 * 2_500 * 5
    assert len({record["id"] for record in found}) == len(found) == 15
    assert state.failures == 0
    await stop(worker)


async def test_a_file_that_is_not_there_yet_waits_as_scheduled(
    server: AnyServer, state: AnyState, start_worker: StartWorker, tmp_path: Path
) -> None:
    produce(server, tmp_path / "missing")

    worker = start_worker(
        server.url,
        WORKER_HANDLERS="examples.word_count",
        SINKS=f"jsonl:{tmp_path}/words.ndjson",
    )

    (waiting,) = await eventually(lambda: state.scheduled, 20)
    assert waiting["jobtype"] == "split_text"
    assert "not there yet" in waiting["failure"]["message"]
    await stop(worker)
