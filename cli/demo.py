"""The main job in one command: broker, API, worker and a small site; jobs in, pages out.

Shows what a user would do by hand: POST jobs to the API, look at /stats, read the records.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
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

from cli.services import ServiceFailed, api, broker, service
from cli.site import HOSTS, local_site

LOOK_EVERY_S = 0.1
# Without a terminal there is no bar to redraw; a line now and then says the same.
PLAIN_LINE_EVERY_S = 2.0
STALLED_AFTER_S = 30.0
SHOWN_RECORDS = 3


@dataclass(slots=True)
class Demo:
    """What runs while the demo does."""

    console: Console
    client: httpx.AsyncClient
    worker: asyncio.subprocess.Process
    records: Path
    progress: Progress

    async def stats(self) -> dict[str, Any]:
        faktory: dict[str, Any] = (await self.client.get("/stats")).json()["faktory"]
        return faktory

    async def post(self, content: bytes, content_type: str) -> None:
        answer = await self.client.post(
            "/jobs", content=content, headers={"Content-Type": content_type}, timeout=60
        )
        if answer.status_code != 202 or answer.json()["refused"]:
            raise ServiceFailed(f"the API did not take the jobs: {answer.text[:500]}")

    async def watch(self, bar: TaskID, total: int, count: Callable[[], Awaitable[int]]) -> None:
        """Until all are done, or nothing has moved for long."""
        seen, moved_at, told_at = 0, time.monotonic(), time.monotonic()
        while seen < total:
            await asyncio.sleep(LOOK_EVERY_S)
            now, counted = time.monotonic(), await count()
            if counted != seen:
                seen, moved_at = counted, now
            if self.worker.returncode is not None:
                raise ServiceFailed(f"the worker ended with {self.worker.returncode}")
            if now - moved_at > STALLED_AFTER_S:
                raise ServiceFailed(f"nothing was done for {STALLED_AFTER_S:.0f} s: {seen}/{total}")
            self.progress.update(bar, completed=seen)
            if not self.console.is_terminal and now - told_at > PLAIN_LINE_EVERY_S:
                told_at = now
                self.console.print(f"{seen:,} of {total:,}")


async def run_demo(jobs: int, pages: int, slots: int) -> int:
    console = Console(stderr=True)
    started_at = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="manyhands-") as name, local_site(pages) as urls:
        directory = Path(name)
        records = directory / "pages.ndjson"
        async with broker(directory) as ready:
            url = f"tcp://{ready['address']}"
            async with (
                service("worker", directory, **_worker_settings(url, slots, records)) as worker,
                api(directory, url, ready["http"]) as client,
            ):
                ready_s = time.monotonic() - started_at
                console.print(
                    f"broker at {url}, API at {client.base_url}, a worker with {slots} slots, "
                    f"a site of {len(HOSTS)} hosts: ready after {ready_s:.1f} s"
                )
                with _progress(console) as progress:
                    demo = Demo(console, client, worker, records, progress)
                    adding_s = await _add(demo, jobs)
                    fetching_s = await _fetch(demo, urls)
                return await _summary(demo, jobs, pages, adding_s, fetching_s)


def _worker_settings(url: str, slots: int, records: Path) -> dict[str, str]:
    return {
        "FAKTORY_URL": url,
        "WORKER_CONCURRENCY": str(slots),
        "WORKER_QUEUES": "parse,default,fetch.*",
        "WORKER_HANDLERS": "worker.handlers.add,worker.handlers.fetch,worker.handlers.parse",
        "WORKER_LOG_LEVEL": "warning",
        "WORKER_HTTP_BIND": "127.0.0.1:0",
        "SINK_NDJSON": str(records),
        "ALLOW_NETS": "127.0.0.0/8",
    }


async def _add(demo: Demo, jobs: int) -> float:
    """POST `add` jobs as NDJSON, and see them done. Returns the seconds."""
    started_at = time.monotonic()
    bar = demo.progress.add_task("`add` jobs done", total=jobs)
    lines = b"".join(
        b'{"jobtype":"add","args":{"a":%d,"b":1}}\n' % number for number in range(jobs)
    )

    async def done() -> int:
        return int((await demo.stats())["total_processed"])

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(demo.post(lines, "application/x-ndjson"))
        tasks.create_task(demo.watch(bar, jobs, done))
    return time.monotonic() - started_at


async def _fetch(demo: Demo, urls: list[str]) -> float:
    """POST the site's URLs, one a line, and see its pages fetched, parsed and written."""
    started_at = time.monotonic()
    bar = demo.progress.add_task("pages fetched and parsed", total=len(urls))

    async def written() -> int:
        return len(_lines(demo.records))

    await demo.post("\n".join(urls).encode(), "text/plain")
    await demo.watch(bar, len(urls), written)
    return time.monotonic() - started_at


async def _summary(demo: Demo, jobs: int, pages: int, adding_s: float, fetching_s: float) -> int:
    records = [orjson.loads(line) for line in _lines(demo.records)]
    for record in records[:SHOWN_RECORDS]:
        shown = f"{record['url']}  {record['title']!r}, {len(record['links'])} links"
        demo.console.print(shown, highlight=False)
    stats = await demo.stats()
    failed = stats["total_failures"]
    links = sum(len(record["links"]) for record in records)
    demo.console.print(
        f"{jobs:,} `add` jobs posted and done in {adding_s:.1f} s ({jobs / adding_s:,.0f}/s); "
        f"{len(records):,} pages fetched, parsed and on disk in {fetching_s:.1f} s "
        f"({pages / fetching_s:,.0f}/s), {links:,} links; {failed} jobs failed"
    )
    return 0 if len(records) == pages and failed == 0 else 1


def _lines(file: Path) -> list[bytes]:
    return file.read_bytes().splitlines() if file.exists() else []


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:>24}"),
        BarColumn(bar_width=40),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )
