"""The product of another revision under the load test of this checkout.

Everything here starts the product's processes from the directory that the load test itself lies in.
So a directory with that revision's product and a copy of this load test runs the one by the other,
and no benchmark has to know of it.
"""

import io
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devservers.processes import make_directory, remove_directory
from loadtest.consumers import ROOT
from loadtest.lab import RunError

PRODUCT = ("shared", "api", "worker", "broker", "cli")
# They call the product's own functions, so they come with it; all else asks its processes.
INSIDE = "loadtest/*_handlers.py"
MEASURING = ("loadtest", "devservers")
# The servers and peers that are built already.
CACHE = ".cache"


def described(revision: str) -> str:
    """Its short hash and first line. Raises RunError if there is none of that name."""
    return _git("log", "-1", "--format=%h %s", revision, "--").decode().strip()


@contextmanager
def other_checkout(revision: str) -> Iterator[Path]:
    """Such a directory, which is gone afterwards."""
    packed = _git("archive", "--format=tar", revision, *PRODUCT, INSIDE)
    directory = make_directory()
    try:
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(directory, filter="data")
        for name in MEASURING:
            _add_missing(ROOT / name, directory / name)
        (directory / CACHE).symlink_to(ROOT / CACHE)
        yield directory
    finally:
        remove_directory(directory)


def _add_missing(source: Path, target: Path) -> None:
    """Modules are copied, for they find their checkout by where they lie; directories of programs
    in other languages are linked, so that these are built only once."""
    target.mkdir(exist_ok=True)
    for path in source.iterdir():
        copy = target / path.name
        if path.suffix == ".py" and not copy.exists():
            shutil.copy(path, copy)
        elif path.is_dir() and path.name != "__pycache__":
            copy.symlink_to(path)


def _git(*arguments: str) -> bytes:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True)
    except FileNotFoundError:
        raise RunError("another revision is taken from git, which is not installed") from None
    if done.returncode:
        raise RunError(f"git {arguments[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout
