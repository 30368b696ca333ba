"""Watches a crawl to its end, and shows how far it is."""

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
from manyhands.cli.figures import Look, make_look, progress_line
from manyhands.cli.services import Service
from manyhands.cli.stall import Stall
from manyhands.cli.stop import Stop

LOOK_EVERY_S = 0.5
# Without a terminal there is nothing to redraw; a line now and then says the same.
PLAIN_LINE_EVERY_S = 2.0
# What an API that has too much to do may answer.
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

    def show(self, look: Look, now: float) -> None:
        # What the bar counts is a page to the end: parsed, and its record written.
        self._bar.update(self._bar.task_ids[0], description=str(look.state), completed=look.done)
        self._line.plain = progress_line(look)
        is_time = now - self._told_at >= PLAIN_LINE_EVERY_S
        if not self.console.is_terminal and is_time and not look.state.is_final:
            self._told_at = now
            done = f"{look.done:,} of {self.total:,} pages · {progress_line(look)}"
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
        self, stop: Stop, on_stall: Callable[[Look], Awaitable[None]]
    ) -> Look | None:
        """The last look: that of a crawl that has not ended if it was stopped before, and None if
        there was none. Raises ServiceFailed when a service has ended."""
        stall = Stall(time.monotonic())
        last: Look | None = None
        with self.display.shown():
            while not stop.is_asked:
                look = await self._look()
                now = time.monotonic()
                if look is not None:
                    last = look
                    self.display.show(look, now)
                    if look.state.is_final:
                        return look
                    if stall.look(look.movement, now):
                        await on_stall(look)
                await stop.wait(LOOK_EVERY_S)
        return last

    async def _look(self) -> Look | None:
        """None: the API has too much to do just now."""
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

    async def look(self) -> Look:
        view = await self.api.get(f"/crawls/{self.crawl}")
        errors = await self.api.get(f"/crawls/{self.crawl}/errors")
        queues = await self.api.get("/queues")
        try:
            metrics = await self.worker.text("/metrics")
        except ApiFailed:
            metrics = ""
        return make_look(view, errors["errors"], queues, metrics)
