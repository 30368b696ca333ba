"""Remembers, on this machine, which page a process was at when it ended, so that a function which
ends every process on one page costs that page alone.

Only pages that come alone are noted: those of a job that came back after a death do, and whoever
ends a process the second time is known by then.
"""

import os
import tempfile
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

# A process may also be killed by somebody else at that moment.
MOST_DEATHS = 2
_NAME_BYTES = 16


class Deaths:
    """State: a directory of ours with a file for each page that a function has now, or had when its
    process ended; its size counts how often. Without such a directory nothing is remembered."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory or (
            Path(tempfile.gettempdir()) / f"manyhands-page-functions-{os.getuid()}"
        )

    def begin(self, visit: str) -> int:
        """How many processes ended at this page so far."""
        with suppress(OSError):
            self._directory.mkdir(mode=0o700, exist_ok=True)
            if self._directory.stat().st_uid != os.getuid():
                return 0
            with self._file(visit).open("ab") as file:
                before = file.tell()
                file.write(b"x")
            return before
        return 0

    def end(self, visit: str) -> None:
        with suppress(OSError):
            self._file(visit).unlink(missing_ok=True)

    def _file(self, visit: str) -> Path:
        return self._directory / blake2b(visit.encode(), digest_size=_NAME_BYTES).hexdigest()
