"""A wall clock that a test sets while processes run, by libfaketime of the machine's own Debian or
Ubuntu: fetched once with apt-get, without root, into the checkout's .cache directory.

The monotonic clock is left as it is. Where apt-get is missing, missing_for_faketime() says so, and
the tests that need it are left out.
"""

import functools
import os
import platform
from pathlib import Path

from devservers.build import CACHE, BuildError, made_once
from devservers.checkout import PRODUCT_PATH
from devservers.packages import missing_tools, unpack_packages

# That for programs with threads.
LIBRARY = "libfaketimeMT.so.1"
# Run by Python when it starts. Its own sleep waits for a moment of the monotonic clock, which
# libfaketime 0.9.10 shifts although it must not: the sleep ends at once, with EINVAL.
SITE = """\
import select
import time

time.sleep = lambda seconds: select.select((), (), (), seconds)[0] or None
"""


class SettableClock:
    """The wall clock of every process that was started with `settings`. `file` tells them how far
    it is from the real one."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._site = file.with_name(f"{file.name}-site")
        self._site.mkdir()
        (self._site / "sitecustomize.py").write_text(SITE)
        self.ahead_s = 0
        self.step(0)

    def step(self, seconds: int) -> None:
        """Set it forward, or back; they notice with their next look."""
        self.ahead_s += seconds
        # At once: a file that is empty for a moment would mean the real time.
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{self.ahead_s:+d}\n")
        fresh.replace(self._file)

    @property
    def settings(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(libfaketime()),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
            "PYTHONPATH": os.pathsep.join((str(self._site), PRODUCT_PATH)),
        }


@functools.cache
def libfaketime() -> Path:
    """Return the library, and fetch it first if nobody has yet."""
    if missing := missing_for_faketime():
        raise BuildError(f"not on PATH: {', '.join(missing)}; libfaketime is fetched with them")
    fetched = made_once(_target(), functools.partial(unpack_packages, ("libfaketime",)))
    found = sorted(fetched.glob(f"**/{LIBRARY}"))
    if not found:
        raise BuildError(f"the package libfaketime has no {LIBRARY}")
    return found[0]


def missing_for_faketime() -> list[str]:
    """Name the programs that are needed to fetch it and that this machine has not."""
    return [] if _target().is_dir() else missing_tools()


def _target() -> Path:
    return CACHE / f"libfaketime-{platform.machine()}"
