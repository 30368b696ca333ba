"""A small disk of its own for volumes, that can be full."""

import errno
import subprocess
from pathlib import Path

# The journals of SQLite and the reserve of our broker fit in.
SIZE = "96m"
PART = b"\0" * 2**16


class SmallDisk:
    """Mounted in the namespace of this process, with which it goes."""

    def __init__(self, place: Path, user: int) -> None:
        self._place = place
        self._user = user
        place.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", place], check=True)

    def directory(self, name: str) -> Path:
        """One for a volume, owned by who will write there."""
        made = self._place / name
        made.mkdir(mode=0o700)
        subprocess.run(["chown", f"{self._user}:{self._user}", made], check=True)
        return made

    def fill(self) -> None:
        """To the last page. Called again it takes what was freed since."""
        try:
            with self._filler.open("ab", buffering=0) as filler:
                while True:
                    filler.write(PART)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise

    def free(self) -> None:
        self._filler.unlink()

    def remove(self) -> None:
        subprocess.run(["umount", "--lazy", self._place], check=True)

    @property
    def _filler(self) -> Path:
        return self._place / "filler"
