"""The main job in one command: broker, worker, jobs, a progress bar, and a check of the end."""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from shared.errors import FaktoryError
from shared.faktory.client import MAX_BULK_JOBS, FaktoryClient
from shared.faktory.handshake import parse_url
from shared.jobs import Job

QUEUE = "default"
LOOK_EVERY_S = 0.1
# Without a terminal there is no bar to redraw; a line now and then says the same.
PLAIN_LINE_EVERY_S = 2.0
STALLED_AFTER_S = 30.0
BROKER_START_S = 15.0


async def run_demo(jobs: int, slots: int) -> int:
    console = Console(stderr=True)
    async with _broker() as ready:
        url = f"tcp://{ready['address']}"
        console.print(f"broker at {url}, its figures at http://{ready['http']}/stats")
        async with (
            _worker(url, slots) as worker,
            FaktoryClient(parse_url(url), connections=2) as client,
        ):
            started_at = time.monotonic()
            with _progress(console) as progress:
                pushed = progress.add_task("pushed", total=jobs)
                done = progress.add_task("done", total=jobs)
                pusher = asyncio.create_task(_push(client, jobs, progress, pushed))
                await _watch(client, worker, jobs, progress, done)
                await pusher
            took_s = time.monotonic() - started_at
            info = (await client.info())["faktory"]
    failed = info["total_failures"]
    console.print(
        f"{info['total_processed']:,} `add` jobs done, {failed} failed, in {took_s:.1f} s "
        f"({jobs / took_s:,.0f} jobs/s pushed and done), {slots} slots"
    )
    return 0 if info["total_processed"] == jobs and failed == 0 else 1


@asynccontextmanager
async def _broker() -> AsyncIterator[dict[str, str]]:
    """A broker on free ports, with a directory that goes with it; gives its first log line."""
    with tempfile.TemporaryDirectory(prefix="manyhands-") as directory:
        others = {key: value for key, value in os.environ.items() if "BROKER_" not in key}
        settings = {
            "BROKER_BIND": "127.0.0.1:0",
            "BROKER_HTTP_BIND": "127.0.0.1:0",
            "BROKER_DATA": directory,
            "BROKER_LOG_LEVEL": "info",
        }
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "broker"),
            env=others | settings,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            yield await _ready_line(process)
        finally:
            if process.returncode is None:
                process.terminate()
            await process.communicate()


async def _ready_line(broker: asyncio.subprocess.Process) -> dict[str, str]:
    assert broker.stderr is not None
    said = b""
    try:
        async with asyncio.timeout(BROKER_START_S):
            while line := await broker.stderr.readline():
                said += line
                if b'"event": "ready"' in line:
                    ready: dict[str, str] = orjson.loads(line)
                    return ready
    except TimeoutError:
        pass
    raise FaktoryError(f"the broker did not start: {said.decode(errors='replace').strip()}")


@asynccontextmanager
async def _worker(url: str, slots: int) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "worker",
        env=os.environ
        | {
            "FAKTORY_URL": url,
            "WORKER_CONCURRENCY": str(slots),
            "WORKER_QUEUES": QUEUE,
            "WORKER_LOG_LEVEL": "warning",
        },
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _push(client: FaktoryClient, jobs: int, progress: Progress, task: TaskID) -> None:
    for start in range(0, jobs, MAX_BULK_JOBS):
        batch = [
            Job(jobtype="add", args=[number, 1], queue=QUEUE)
            for number in range(start, min(start + MAX_BULK_JOBS, jobs))
        ]
        refused = await client.push_bulk(batch)
        if refused:
            raise FaktoryError(f"the server refused {len(refused)} jobs: {refused}")
        progress.update(task, advance=len(batch))


async def _watch(
    client: FaktoryClient,
    worker: asyncio.subprocess.Process,
    jobs: int,
    progress: Progress,
    task: TaskID,
) -> None:
    """Until every job is acknowledged, or nothing has moved for long."""
    seen, moved_at, told_at = 0, time.monotonic(), 0.0
    while seen < jobs:
        await asyncio.sleep(LOOK_EVERY_S)
        now = time.monotonic()
        processed = (await client.info())["faktory"]["total_processed"]
        if processed != seen:
            seen, moved_at = processed, now
        if worker.returncode is not None:
            raise FaktoryError(f"the worker ended with {worker.returncode}")
        if now - moved_at > STALLED_AFTER_S:
            raise FaktoryError(f"no job was done for {STALLED_AFTER_S:.0f} s, {seen} of {jobs} are")
        progress.update(task, completed=seen)
        if not progress.console.is_terminal and now - told_at > PLAIN_LINE_EVERY_S:
            told_at = now
            progress.console.print(f"{seen:,} of {jobs:,} done")


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:>7}"),
        BarColumn(bar_width=40),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )
