"""Processes that write to a sink and are killed: at each step in turn, or at any moment.

`python -m tests.support.sink_writer steps KIND URL DIRECTORY` runs the same few batches again and
again, each time in another directory: the first run is killed before its first step, the second
before its second, and so on, until one gets through. Each is followed by two that are not killed:
one that only opens and closes the sink, and one that writes what was not acknowledged.

`python -m tests.support.sink_writer moments KIND URL RECORDS KILLS SEED` writes that many records
in an order of its own, and is killed and started again that often.

A fork each: all libraries are loaded by then, and no thread runs.
"""

import asyncio
import fcntl
import itertools
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import obstore

from manyhands.shared.crawl.store.sqlite.database import Database
from manyhands.shared.logs import configure_logs
from manyhands.worker.sinks.protocol import Sink
from tests.support.file_sinks import KINDS

ACKNOWLEDGED = "acknowledged"
# One record is in two of them, and two in one batch: a sink takes each once.
BATCHES = ((0, 1, 2), (2, 3), (4, 5, 5, 6))
RECORDS = sorted({number for batch in BATCHES for number in batch})
BATCH = 20
# Longer than any run takes that does not hang.
MOST_S = 300
_SYSTEM_CALLS = (
    *("open", "pwrite", "ftruncate", "fdatasync", "fsync", "replace", "unlink", "mkdir"),
)


class Death:
    """Comes before a certain one of the calls that change something on the disk."""

    def __init__(self, step: int) -> None:
        self._left = step
        self._lock = threading.Lock()

    def arm(self) -> None:
        for name in _SYSTEM_CALLS:
            setattr(os, name, self._deadly(getattr(os, name)))
        fcntl.flock = self._deadly(fcntl.flock)
        obstore.put = self._deadly(obstore.put)
        Database.run = self._deadly(Database.run)  # type: ignore[method-assign]

    def _deadly(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **options: Any) -> Any:
            with self._lock:
                self._left -= 1
                if self._left == 0:
                    if call.__name__ == "pwrite":
                        descriptor, data, offset = arguments
                        call(descriptor, bytes(data)[: len(data) // 2], offset)
                    os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **options)

        return called


Batches = Iterable[Sequence[int]]


async def write(kind: str, url: str, batches: Batches, log: Path) -> None:
    sink = KINDS[kind].make(url)
    await sink.open()
    with log.open("ab", buffering=0) as acknowledged:
        for batch in batches:
            await _written(sink, [KINDS[kind].record(number) for number in batch])
            acknowledged.write("".join(f"{number}\n" for number in batch).encode())
    await sink.close()


async def _written(sink: Sink, records: Sequence[Any]) -> None:
    while True:
        try:
            await sink.write(records)
        except Exception:
            await asyncio.sleep(0.05)
        else:
            return


def start(kind: str, url: str, batches: Batches, log: Path, step: int = 0) -> int:
    """A writer that dies before that step, if it is not 0; its process id."""
    pid = os.fork()
    if pid:
        return pid
    signal.alarm(MOST_S)
    try:
        Death(step).arm()
        asyncio.run(write(kind, url, batches, log))
    except BaseException as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        os._exit(1)
    os._exit(0)


def ended(pid: int) -> bool:
    """Whether it got to its end; False if it was killed. Anything else is no result."""
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return False
    if status:
        raise SystemExit(f"a writer failed with status {status}")
    return True


def acknowledged(log: Path) -> set[int]:
    return set(map(int, log.read_text().split())) if log.exists() else set()


def die_at_each_step(kind: str, url: str, base: Path) -> None:
    for step in itertools.count(1):
        directory = base / str(step)
        directory.mkdir()
        place, log = url.format(directory), directory / ACKNOWLEDGED
        has_ended = ended(start(kind, place, BATCHES, log, step))
        ended(start(kind, place, [], log))
        done = acknowledged(log)
        left = [[number for number in batch if number not in done] for batch in BATCHES]
        ended(start(kind, place, left, log))
        if has_ended:
            return


def die_at_any_moment(kind: str, url: str, records: int, kills: int, seed: int) -> None:
    dice = random.Random(seed)
    order = list(range(records))
    dice.shuffle(order)
    batches = [order[first : first + BATCH] for first in range(0, records, BATCH)]
    log = Path(f"{ACKNOWLEDGED}-{seed}")
    while True:
        # What its predecessor had in hand comes again, and some that it had done already.
        done = acknowledged(log)
        left = [batch for batch in batches if dice.random() < 0.1 or not done.issuperset(batch)]
        pid = start(kind, url, left, log)
        if kills:
            time.sleep(dice.uniform(0.01, 0.25))
            os.kill(pid, signal.SIGKILL)
            kills -= 1
        if ended(pid) and not kills:
            return


def main(arguments: Sequence[str]) -> None:
    configure_logs("error")
    how, kind, url, *rest = arguments
    KINDS[kind].module.SEALED_AT = KINDS[kind].sealed_at
    if how == "steps":
        die_at_each_step(kind, url, Path(rest[0]))
    else:
        die_at_any_moment(kind, url, *map(int, rest))


if __name__ == "__main__":
    main(sys.argv[1:])
