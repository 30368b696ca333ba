"""Remembers, on this machine, at which page a process was when it ended, so that a function which
ends every process on one page costs that page alone."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

# A process may also be killed by somebody else at that moment.
MOST_DEATHS = 2
_NAME_BYTES = 16


class Deaths:
    """State: a directory of ours with a file for each page that a function is at, or was when its
    process ended; its size counts how often. Without such a directory nothing is remembered."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory or (
            Path(tempfile.gettempdir()) / f"manyhands-page-functions-{os.getuid()}"
        )

    def so_far(self, visit: str) -> int:
        """How many processes ended at this page."""
        try:
            return self._file(visit).stat().st_size if self._is_ours() else 0
        except OSError:
            return 0

    @contextlib.contextmanager
    def at(self, visit: str) -> Iterator[None]:
        """If the process ends meanwhile, it was at this page."""
        path, before = self._file(visit), self.so_far(visit)
        with contextlib.suppress(OSError):
            self._directory.mkdir(mode=0o700, exist_ok=True)
            if self._is_ours():
                path.write_bytes(b"x" * (before + 1))
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                os.truncate(path, before)

    def forget(self, visit: str) -> None:
        with contextlib.suppress(OSError):
            self._file(visit).unlink(missing_ok=True)

    def _is_ours(self) -> bool:
        """Anybody may make a directory of that name."""
        return self._directory.stat().st_uid == os.getuid()

    def _file(self, visit: str) -> Path:
        return self._directory / blake2b(visit.encode(), digest_size=_NAME_BYTES).hexdigest()
