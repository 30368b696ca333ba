"""A directory of SQLite files is for the processes of one machine: leases count by its boot, and
another machine does not see which parts of a file are locked or in memory. So whoever owns shards
writes a beat to `hosts/<boot id>`, and refuses a directory where the beat of another boot changes.

A boot is a machine: containers of one machine have the same id. The beat of an earlier boot of this
machine does not change any more. A file of its own for each boot needs nothing of a network drive
but that what one machine has written can be read by another, sooner or later.
"""

import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path

from manyhands.shared.crawl.store import clock
from manyhands.shared.errors import ConfigError

_DIRECTORY = "hosts"


def are_beating(before: Mapping[str, str], after: Mapping[str, str]) -> set[str]:
    """Of the boots whose beats were read twice, those that have written in between."""
    return {boot for boot, beat in after.items() if before.get(boot) != beat}


def refuse_other_machines(directory: Path, wait_s: float) -> None:
    """For those who own no shards. Waits only where there was another machine, or an earlier boot
    of this one, and longer than a machine that runs leaves between two beats. Raises
    ConfigError."""
    beats = HostBeats(directory)
    if beats.look():
        time.sleep(wait_s)
        beats.refuse_others()
        beats.forget_others()


class HostBeats:
    """State: the beats of other boots, as they were at the last look. `boot` is empty where the
    system does not tell it: then nothing is written, and nobody refused."""

    def __init__(self, directory: Path, boot: str | None = None) -> None:
        self._state = directory
        self._directory = directory / _DIRECTORY
        self._boot = clock.moment().boot if boot is None else boot
        self._known: dict[str, str] = {}

    def look(self) -> bool:
        """For the first time; False: there is nobody to wait for."""
        self._known = self._others()
        return bool(self._known)

    def refuse_others(self) -> None:
        """Raises ConfigError if one of them has beaten since the last look."""
        seen = self._others()
        if others := are_beating(self._known, seen):
            raise ConfigError(
                f"another machine uses {self._state} as well (boot {min(others)}): the crawls of "
                "a directory can only be run by one machine at a time"
            )
        self._known = seen

    def forget_others(self) -> None:
        """Of boots that were silent: this machine's own from before, or one that was here once."""
        for boot in self._known:
            self._file(boot).unlink(missing_ok=True)
        self._known = {}

    def beat(self) -> None:
        if not self._boot:
            return
        new = self._directory / f".{self._boot}.{os.getpid()}"
        # What cannot be written there the store itself will say.
        with contextlib.suppress(OSError):
            self._directory.mkdir(parents=True, exist_ok=True)
            new.write_text(f"{os.getpid()} {time.time_ns()}\n")
            new.replace(self._file(self._boot))

    def _others(self) -> dict[str, str]:
        beats: dict[str, str] = {}
        with contextlib.suppress(OSError):
            for path in self._directory.iterdir() if self._boot else ():
                if path.name != self._boot and not path.name.startswith("."):
                    beats[path.name] = path.read_text(errors="replace")
        return beats

    def _file(self, boot: str) -> Path:
        return self._directory / boot
