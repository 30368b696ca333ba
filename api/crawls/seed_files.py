"""Reads the files of seeds that crawls name, and puts the seeds into the store: workers need not
have the files. Any process of the API that has a file may read it, one at a time; if it ends, one
goes on where it stopped."""

import asyncio
import os
import socket
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from manyhands.api.crawls.seed_lines import FileHasChanged, Part, SeedLines
from manyhands.api.crawls.seeds import by_shard
from manyhands.api.crawls.store import CrawlStore
from manyhands.api.problems import Problem
from manyhands.shared.contained import Outside, path_below
from manyhands.shared.crawl.store import clock
from manyhands.shared.crawl.store.model import SeedFile
from manyhands.shared.crawl.store.protocol import ControlStore
from manyhands.shared.jobs import new_jid
from manyhands.shared.logs import get_logger
from manyhands.shared.public_addresses import AddressRule

LOOK_S = 1.0
# Longer than reading and storing a part takes.
READER_TTL_S = 15.0
# Batches of a crawl that no worker has taken yet: more of them only fill the store.
MOST_WAITING = 10_000
# What cannot be read is tried again after that, and a store that is away.
TRY_AGAIN_S = 10.0
AWAY_LOOK_S = 5.0


class _Open(NamedTuple):
    lines: SeedLines
    read: SeedFile


class SeedFiles:
    """State: the files that are being read, how far, and when those that cannot be read are tried
    again (by the loop's clock)."""

    def __init__(self, store: CrawlStore, directory: Path, addresses: AddressRule) -> None:
        """`addresses` are those that seeds may have."""
        self._store = store
        self._directory = directory
        self._addresses = addresses
        self._reader = f"{socket.gethostname()}.{os.getpid()}.{new_jid()[:8]}"
        self._open: dict[int, _Open] = {}
        self._not_before: dict[int, float] = {}
        self._look_now = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._run(), name="seed-files")
        self._log = get_logger("api")

    def look_soon(self) -> None:
        """There may be a new one."""
        self._look_now.set()

    async def close(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        self._close_files()
        with suppress(Problem):
            await self._store.control(lambda control: control.files.leave(self._reader))

    async def _run(self) -> None:
        while True:
            wait_s = LOOK_S
            try:
                if await self._look():
                    continue
            except Problem as problem:
                # What became of the last part is not known: begin with what the store says.
                if self._open:
                    self._log.warning("seed files wait", reason=problem.detail)
                self._close_files()
                wait_s = AWAY_LOOK_S
            except Exception:
                self._log.exception("unhandled exception")
                self._close_files()
                wait_s = AWAY_LOOK_S
            with suppress(TimeoutError):
                await asyncio.wait_for(self._look_now.wait(), wait_s)
            self._look_now.clear()

    async def _look(self) -> bool:
        """Whether there is more to read at once: a part of each file in turn."""
        now = clock.now()
        for file in await self._store.control(
            lambda control: control.files.unread(self._reader, now)
        ):
            if file.crawl not in self._open and self._may_try(file.crawl):
                await self._begin(file)
        done = [await self._read_on(crawl) for crawl in list(self._open)]
        return any(done)

    def _may_try(self, crawl: int) -> bool:
        return self._loop.time() >= self._not_before.get(crawl, 0.0)

    async def _begin(self, file: SeedFile) -> None:
        path = _path_of(self._directory, file.name)
        if path is None:
            # Another API may have it; as long as none reads it, the crawl says so.
            self._put_off(file.crawl)
            return
        taken = await self._take(file.crawl)
        if taken is None:
            return
        try:
            lines = await asyncio.to_thread(SeedLines, path, taken, self._addresses)
        except (OSError, FileHasChanged) as error:
            await self._cannot_read(taken, error)
            return
        self._open[file.crawl] = _Open(lines, taken)
        self._log.info("reading a seed file", crawl=file.crawl, after_lines=taken.lines)

    async def _read_on(self, crawl: int) -> bool:
        """A part of it. False: it has ended, or has to wait for the workers."""
        lines, read = self._open[crawl]
        waiting = await self._store.control(lambda control: control.seeds_waiting(crawl))
        if waiting > MOST_WAITING:
            if await self._take(crawl) is None:
                self._close_file(crawl)
            return False
        began_at = self._loop.time()
        try:
            part = await asyncio.to_thread(lines.next_part)
        except OSError as error:
            self._close_file(crawl)
            await self._cannot_read(read, error)
            return False
        now_read = part.added_to(read, until=clock.now() + READER_TTL_S)
        if not await self._store.control(partial(self._keep, read=now_read, part=part)):
            self._log.info("a seed file is not wanted any more", crawl=crawl)
            self._close_file(crawl)
            return False
        self._open[crawl] = _Open(lines, now_read)
        if part.first_refusal and not read.refused:
            await self._note(crawl, f"the seed file: {part.first_refusal}")
        if part.is_end:
            await self._ended(now_read, has_changed=lines.has_changed())
            return False
        # Requests have their turn: this takes half of the process at most.
        await asyncio.sleep(self._loop.time() - began_at)
        return True

    def _keep(self, control: ControlStore, read: SeedFile, part: Part) -> bool:
        # By the layout at this moment.
        seeds = by_shard(part.seeds, self._store.layout(control).shards)
        return control.files.add(read, seeds)

    async def _ended(self, read: SeedFile, *, has_changed: bool) -> None:
        self._close_file(read.crawl)
        refused = f", of which {read.refused:,} were refused" if read.refused else ""
        await self._note(read.crawl, f"the seed file was read: {read.lines:,} lines{refused}")
        if has_changed:
            await self._note(read.crawl, "the seed file was changed while it was read")
        self._log.info("seed file read", crawl=read.crawl, lines=read.lines, refused=read.refused)

    async def _take(self, crawl: int) -> SeedFile | None:
        now = clock.now()
        return await self._store.control(
            lambda control: control.files.take(crawl, self._reader, now, now + READER_TTL_S)
        )

    async def _cannot_read(self, file: SeedFile, error: Exception) -> None:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        self._put_off(file.crawl)
        if why != file.trouble:
            self._log.warning("a seed file cannot be read", crawl=file.crawl, reason=why)
        await self._store.control(
            lambda control: control.files.cannot_read(file.crawl, self._reader, why)
        )

    async def _note(self, crawl: int, text: str) -> None:
        await self._store.control(lambda control: control.note(crawl, text, clock.now()))

    def _put_off(self, crawl: int) -> None:
        self._not_before[crawl] = self._loop.time() + TRY_AGAIN_S

    def _close_file(self, crawl: int) -> None:
        self._open.pop(crawl).lines.close()
        self._not_before.pop(crawl, None)

    def _close_files(self) -> None:
        for crawl in list(self._open):
            self._close_file(crawl)


def _path_of(directory: Path, name: str) -> Path | None:
    """None: it is not here."""
    try:
        path = path_below(directory, name)
    except Outside:
        return None
    return path if path.is_file() else None
