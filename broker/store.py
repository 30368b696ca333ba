"""What survives: SQLite with one writer thread, and one transaction for what many clients sent.

The loop's thread collects changes in a `Batch`; the writer commits one batch while the next one
fills.
"""

import contextlib
import os
import queue
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from manyhands.broker.batches import SET_NAMES, Batch, Push, commit
from manyhands.broker.damage import WHAT_TO_DO, is_damage
from manyhands.broker.directory import (
    CHECKPOINT_PAGES,
    DATABASE,
    DirectoryLock,
    connect,
    look_through,
)
from manyhands.broker.memory import Memory
from manyhands.broker.reading import Reader, Snapshot, read_snapshot
from manyhands.broker.schema import PAGE_BYTES, UnusableDatabase
from manyhands.broker.statements import Statement
from manyhands.broker.tally import Tally, TallyFile
from manyhands.shared.errors import ConfigError
from manyhands.shared.logs import get_logger

# Given up when the disk is full, so that what is stored can still be acknowledged: for that, all
# that the log holds must fit into the database, which empties the log.
BALLAST = "ballast"
BALLAST_BYTES = CHECKPOINT_PAGES * PAGE_BYTES * 3 // 2
RETRY_WRITE_S = 0.5
# Jobs that are not written yet; above this, those who push are not read any more. Whoever else
# pushes waits until so much is on disk.
UNWRITTEN_BYTES = 8 * 1024 * 1024
# A commit costs a sync whatever is in it, so results gather for a moment before they are written:
# nobody waits for their answer. A push is written at once.
GATHER_S = 0.003
# Pages that a drain left unused go back to the file system above this, in steps that take
# milliseconds.
FREE_PAGES_KEPT = 8192
VACUUM_PAGES = 512


class Loop(Protocol):
    """What the store needs of the event loop."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> object: ...

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object: ...

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> object: ...


class Store:
    """State: the batches that wait (the last one is being filled), whether one is being written,
    whether the disk is full, and what made it fail. `is_backed_up`: more is pushed than can be
    written."""

    def __init__(self, directory: Path, *, is_full_sync: bool, loop: Loop, memory: Memory) -> None:
        self.memory = memory
        self.is_disk_full = False
        self.is_backed_up = False
        self.on_broken: Callable[[Exception], None] = _raise
        self.commits = 0
        self.counters = dict.fromkeys(("processed", "failures", *SET_NAMES), 0)
        self._directory = directory
        self._loop = loop
        self._log = get_logger("store")
        self._batches: deque[Batch] = deque([Batch()])
        self._is_writing = False
        self._is_scheduled = False
        self._is_urgent = False
        self._sent_at = 0.0
        self._is_closing = False
        self._tally = Tally()
        self.failure: Exception | None = None
        self._work: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self._lock = DirectoryLock(directory)
        try:
            self.damage = look_through(directory)
            self._writer = connect(directory / DATABASE, is_full_sync=is_full_sync)
            reader = connect(directory / DATABASE, is_full_sync=is_full_sync)
        except UnusableDatabase as error:
            self._lock.close()
            advice = f"; {WHAT_TO_DO}" if "damaged" in str(error) else ""
            text = f"{directory / DATABASE} cannot be used: {error}{advice}"
            raise ConfigError(text) from error
        self.reader = Reader(reader, self.damage)
        self._tally_file = TallyFile(directory)
        self._thread = threading.Thread(target=self._write, name="store-writer", daemon=True)

    # Start and stop

    def load(self) -> Snapshot:
        """Read the state and mark the database as in use."""
        snapshot = read_snapshot(self._writer, self.damage)
        self.counters |= snapshot.counters
        self._set_closed(False)
        if self.damage.lost is not None:
            self._log.error(
                "the database does not have all that was answered",
                file=str(self.damage.path),
                reason=self.damage.lost,
            )
        self._tally = snapshot.tally
        self._tally_file.write(self._tally)
        if not self._hold_ballast():
            self.is_disk_full = True
            self._log.error(
                "the disk is full: refusing new jobs",
                reason=f"there is no room for the reserve of {BALLAST_BYTES >> 20} MiB that lets"
                " jobs be done on a full disk",
            )
        self._thread.start()
        return snapshot

    def close(self) -> None:
        """Wait for what is being written. Only if that was everything, the next start need not
        reckon with results that nobody stored."""
        self._is_closing = True
        if self._thread.is_alive():
            self._work.put(None)
            self._thread.join()
        if self.failure is None and len(self._batches) == 1 and self._batches[0].is_empty:
            self._set_closed(True)
        self.reader.close()
        self._writer.close()
        self._tally_file.close()
        self._lock.close()

    def open_reader(self) -> Reader:
        """One more, for a thread of its own."""
        return Reader(connect(self._directory / DATABASE, is_full_sync=False), self.damage)

    @property
    def refusal(self) -> str | None:
        """Why no job can be stored at present."""
        if self.is_disk_full:
            return "the disk is full"
        return "the database is damaged" if self.damage.is_in_the_way else None

    # Changes

    @property
    def batch(self) -> Batch:
        """The batch that is being filled; it is written soon."""
        if not self._is_scheduled and not self._is_writing:
            self._send_soon()
        return self._batches[-1]

    def count(self, name: str, change: int) -> None:
        self.counters[name] += change
        self.batch.count(name, change)

    def push(self, push: Push) -> None:
        """New jobs are written after this turn of the loop."""
        self._batches[-1].pushes.append(push)
        self.hold(push.size_bytes)
        # Among the others: what comes into a queue becomes visible in the order of its keys.
        self._batches[-1].when_stored.append(push.stored)
        if not self._is_urgent:
            self._is_urgent = True
            if not self._is_writing:
                self._loop.call_soon(self._send)

    def run_alone(self, *statements: Statement) -> None:
        """Statements that come after all that was asked before them, and before what follows: of
        a batch, they are written first."""
        self._batches.append(Batch(statements=list(statements)))
        _ = self.batch

    def wipe(self, *statements: Statement) -> None:
        """`run_alone` for what deletes. Said again before anything else was asked, it is one
        transaction: there is nothing that it could delete once more."""
        last = self._batches[-1]
        if last != Batch(statements=list(statements), when_stored=last.when_stored):
            self.run_alone(*statements)

    def _send_soon(self) -> None:
        self._is_scheduled = True
        self._loop.call_at(self._sent_at + GATHER_S, self._send)

    def _send(self) -> None:
        self._is_scheduled = False
        if self._is_writing:
            return
        while self._batches[0].is_empty:
            if len(self._batches) == 1:
                return
            self._batches.popleft()
        self._is_writing = True
        self._is_urgent = False
        self._sent_at = self._loop.time()
        self._work.put(self._batches.popleft())
        if not self._batches:
            self._batches.append(Batch())

    def _written(self, batch: Batch) -> None:
        self._is_writing = False
        self.commits += 1
        self._release(batch.size_bytes)
        for callback in batch.when_stored:
            callback()
        if len(self._batches) > 1 or self._is_urgent:
            self._send()
        elif not self._batches[0].is_empty:
            self._send_soon()

    def hold(self, size_bytes: int) -> None:
        """So many bytes of jobs went into the batch that is being filled."""
        self._batches[-1].size_bytes += size_bytes
        self.memory.unwritten += size_bytes
        self.is_backed_up = self.memory.unwritten > UNWRITTEN_BYTES

    def _release(self, size_bytes: int) -> None:
        self.memory.unwritten -= size_bytes
        self.is_backed_up = self.memory.unwritten > UNWRITTEN_BYTES

    def _refused(self, pushes: list[Push], reason: str) -> None:
        for push in pushes:
            self._release(push.size_bytes)
            push.refused(reason)

    # The writer's thread

    def _write(self) -> None:
        while (batch := self._work.get()) is not None:
            try:
                self._tally += self._write_until_done(batch)
            except Exception as error:
                self.failure = error
                self._loop.call_soon_threadsafe(self.on_broken, error)
                return
            self._tally_file.write(self._tally)
            self._loop.call_soon_threadsafe(self._written, batch)
            if batch.is_vacuum_due and not self.damage.is_there:
                self._vacuum()

    def _write_until_done(self, batch: Batch) -> Tally:
        """A full disk refuses the pushes; the rest stays until there is room, for an
        acknowledgement that is answered must not be forgotten."""
        while True:
            try:
                return commit(self._writer, batch)
            except sqlite3.DatabaseError as error:
                if self._writer.in_transaction:
                    self._writer.rollback()
                if is_damage(error):
                    self._write_less(batch, error)
                    continue
                if not _is_out_of_space(error) or (self._is_closing and not batch.pushes):
                    raise
                if not self.is_disk_full:
                    self._log.error("the disk is full: refusing new jobs", reason=str(error))
                self.is_disk_full = True
                self._give_up_ballast()
                if not batch.pushes:
                    time.sleep(RETRY_WRITE_S)
                self._refuse_pushes(batch, "the disk is full")

    def _write_less(self, batch: Batch, error: sqlite3.DatabaseError) -> None:
        """Damaged pages are in the way: results are noted beside them, and if that is not enough,
        new jobs are refused; raises when there is nothing left to do without."""
        if not batch.is_noted_only and (batch.settled or batch.removed_set_ids):
            self.damage.found(
                "a page beside jobs that are done", f"{error}; they are noted as gone"
            )
            batch.is_noted_only = True
            self.reader.gone.update(batch.removed_set_ids)
        elif batch.pushes:
            self.damage.found("a page beside the end of a queue", f"{error}; refusing new jobs")
            self.damage.is_in_the_way = True
            self._refuse_pushes(batch, "the database is damaged")
        else:
            raise error

    def _refuse_pushes(self, batch: Batch, reason: str) -> None:
        pushes, batch.pushes = batch.pushes, []
        batch.size_bytes -= sum(push.size_bytes for push in pushes)
        stored = {push.stored for push in pushes}
        batch.when_stored = [call for call in batch.when_stored if call not in stored]
        self._loop.call_soon_threadsafe(self._refused, pushes, reason)

    def _give_up_ballast(self) -> None:
        (self._directory / BALLAST).unlink(missing_ok=True)
        # What the log has grown to is room as well, once it is empty.
        with contextlib.suppress(sqlite3.OperationalError):
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _set_closed(self, is_closed: bool) -> None:
        self._writer.execute(
            "INSERT OR REPLACE INTO counters VALUES ('closed', ?)", (int(is_closed),)
        )

    # Space. Called by the loop from time to time, run by the writer.

    def look_after_space(self) -> None:
        """Return what a drain left unused, and see whether a full disk has room again."""
        free = self.reader.free_pages()
        if self.is_disk_full and not self._is_writing and self._has_room(free):
            self.is_disk_full = not self._hold_ballast()
            if not self.is_disk_full:
                self._log.info("there is room on the disk again: taking new jobs")
        if free > FREE_PAGES_KEPT:
            self.batch.is_vacuum_due = True

    def _vacuum(self) -> None:
        # As a script: of a single statement, Python takes one step, and that is one page.
        with contextlib.suppress(sqlite3.OperationalError):
            self._writer.executescript(f"PRAGMA incremental_vacuum({VACUUM_PAGES})")

    def _has_room(self, free_pages: int) -> bool:
        """More than what was given up: else the disk would be full again with the next job."""
        disk = os.statvfs(self._directory)
        room = disk.f_bavail * disk.f_frsize + free_pages * PAGE_BYTES
        return room >= 2 * BALLAST_BYTES

    def _hold_ballast(self) -> bool:
        path = self._directory / BALLAST
        try:
            with path.open("ab") as file:
                os.posix_fallocate(file.fileno(), 0, BALLAST_BYTES)
        except OSError:
            path.unlink(missing_ok=True)
            return False
        return True


def _is_out_of_space(error: sqlite3.DatabaseError) -> bool:
    # The primary code is in the low byte; a disk that refuses to write is like a full one.
    return (error.sqlite_errorcode & 0xFF) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


def _raise(error: Exception) -> None:
    raise error
