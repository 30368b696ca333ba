"""The clocks of the state store: the same for all processes that share one, and never set.

With a store in PostgreSQL it is the clock of its server, see `follow`: hosts whose own clocks are
wrong are as polite as others.

With files, leases use the monotonic clock itself. All other stored times (when a domain is due,
when a crawl began, when a robots.txt expires) use `now`: the monotonic clock plus an offset that
made it match the wall clock when the first process of this boot opened the store. So setting the
clock makes no host wait and ends no crawl. A reboot chooses a new offset.
"""

import fcntl
import json
import os
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Moment(NamedTuple):
    """Seconds of the monotonic clock, which begins anew with every boot of the machine."""

    boot: str
    at: float


def moment() -> Moment:
    return Moment(_boot(), time.monotonic())


@cache
def _boot() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        # Not Linux: a lease from before a boot ends by its time.
        return ""


_FILE = "clock"


class _StoreClock:
    """State: the offset from the monotonic clock, in seconds."""

    def __init__(self) -> None:
        self.ahead_s = time.time() - time.monotonic()

    def keep(self, directory: Path) -> None:
        if _boot():
            self.ahead_s = _agreed(directory / _FILE, _boot(), time.time() - time.monotonic())

    def follow(self, at: float, asked_at: float, answered_at: float) -> None:
        """A slow answer says little: what is known stays as long as it can be right."""
        earliest, latest = at - answered_at, at - asked_at
        if not earliest <= self.ahead_s <= latest:
            self.ahead_s = (earliest + latest) / 2


_store_clock = _StoreClock()


def keep_time_of(directory: Path) -> None:
    """From here on `now` agrees with all processes that have this store open."""
    _store_clock.keep(directory)


def follow(at: float, asked_at: float, answered_at: float) -> None:
    """A server's clock was at `at` when it answered, between these moments of the monotonic clock
    here. From now on `now` is that of all hosts which follow this server."""
    _store_clock.follow(at, asked_at, answered_at)


def now() -> float:
    """Seconds since 1970, as right as the wall clock was when the offset was chosen."""
    return time.monotonic() + _store_clock.ahead_s


def _agreed(path: Path, boot: str, ahead_s: float) -> float:
    """The offset that the first process of this boot wrote; this one writes it if none has."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            known = json.load(file)
            if known["boot"] == boot:
                return float(known["ahead_s"])
        except (ValueError, TypeError, KeyError):
            pass  # new, or cut short by the end of the machine
        file.seek(0)
        file.truncate()
        json.dump({"boot": boot, "ahead_s": ahead_s}, file)
    return ahead_s
