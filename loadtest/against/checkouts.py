"""Another revision, as a directory of its own: its product, and its load test to measure it by."""

import io
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devservers.checkout import ROOT
from devservers.processes import make_directory, remove_directory
from loadtest.lib.errors import RunError

# The servers and peers that are built already.
CACHE = ".cache"


def described(revision: str) -> str:
    """Its short hash and first line. Raises RunError if there is none of that name."""
    return _git("log", "-1", "--format=%h %s", revision, "--").decode().strip()


@contextmanager
def other_checkout(revision: str) -> Iterator[Path]:
    """Such a directory, which is gone afterwards."""
    packed = _git("archive", "--format=tar", revision)
    directory = make_directory()
    try:
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(directory, filter="data")
        (directory / CACHE).symlink_to(ROOT / CACHE)
        yield directory
    finally:
        remove_directory(directory)


def _git(*arguments: str) -> bytes:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True)
    except FileNotFoundError:
        raise RunError("another revision is taken from git, which is not installed") from None
    if done.returncode:
        raise RunError(f"git {arguments[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout
