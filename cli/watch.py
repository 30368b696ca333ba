"""Watches a crawl to its end, and shows its progress."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from manyhands.cli.api_client import Api, ApiFailed
from manyhands.cli.figures import Snapshot, make_snapshot, progress_line
from manyhands.cli.services import Service
from manyhands.cli.stall import Stall
from manyhands.cli.stop import Stop

LOOK_EVERY_S = 0.5
# Without a terminal nothing can be redrawn; a line now and then says the same.
PLAIN_LINE_EVERY_S = 2.0
# What a busy API may answer.
PASSING = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)


@dataclass(slots=True)
class Display:
    """A bar and a line below it. State: when a line was last printed."""

    console: Console
    total: int
    _bar: Progress = field(init=False)
    _line: Text = field(init=False, default_factory=Text)
    _told_at: float = 0.0

    def __post_init__(self) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=40),
            MofNCompleteColumn(),
            TextColumn("pages"),
            TimeElapsedColumn(),
            console=self.console,
        )
        self._bar.add_task("starting", total=self.total)

    @contextmanager
    def shown(self) -> Iterator[None]:
        if not self.console.is_terminal:
            yield
            return
        with Live(Group(self._bar, self._line), console=self.console, refresh_per_second=4):
            yield

    def show(self, snapshot: Snapshot, now: float) -> None:
        self._bar.update(
            self._bar.task_ids[0], description=str(snapshot.state), completed=snapshot.pages
        )
        self._line.plain = progress_line(snapshot)
        is_time = now - self._told_at >= PLAIN_LINE_EVERY_S
        if not self.console.is_terminal and is_time and not snapshot.state.is_final:
            self._told_at = now
            done = f"{snapshot.pages:,} of {self.total:,} pages · {progress_line(snapshot)}"
            self.console.print(done)


@dataclass(slots=True)
class Watch:
    """`worker` is the HTTP side of the worker service."""

    api: Api
    worker: Api
    crawl: int
    services: Sequence[Service]
    display: Display

    async def to_the_end(
        self, stop: Stop, on_stall: Callable[[Snapshot], Awaitable[None]]
    ) -> Snapshot | None:
        """The last snapshot, which shows an unfinished crawl if it was stopped; None if there was
        none. Raises ServiceFailed when a service has ended."""
        stall = Stall(time.monotonic())
        last: Snapshot | None = None
        with self.display.shown():
            while not stop.is_asked:
                snapshot = await self._look()
                now = time.monotonic()
                if snapshot is not None:
                    last = snapshot
                    self.display.show(snapshot, now)
                    # A crawl does not wait for the records of what came to no page. Those that the
                    # worker has taken are written before it ends.
                    if snapshot.state.is_final and not snapshot.parse_backlog:
                        return snapshot
                    if stall.look(snapshot.movement, now):
                        await on_stall(snapshot)
                await stop.wait(LOOK_EVERY_S)
        return last

    async def _look(self) -> Snapshot | None:
        """None: the API is too busy just now."""
        for service in self.services:
            service.check()
        try:
            return await self.look()
        except ApiFailed as error:
            # It may have ended since.
            await asyncio.sleep(LOOK_EVERY_S)
            for service in self.services:
                service.check()
            if error.status in PASSING:
                return None
            raise

    async def look(self) -> Snapshot:
        view = await self.api.get(f"/crawls/{self.crawl}")
        errors = await self.api.get(f"/crawls/{self.crawl}/errors")
        queues = await self.api.get("/queues")
        try:
            metrics = await self.worker.text("/metrics")
        except ApiFailed:
            metrics = ""
        return make_snapshot(view, errors["errors"], queues, metrics)
