"""What is made once for all processes of a test run: the first that needs it makes it, the others
wait."""

import fcntl
from collections.abc import Callable
from pathlib import Path

import pytest


def run_directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory of the fixture that is the same in all processes of this run."""
    base = tmp_path_factory.getbasetemp()
    # Under xdist each process has its own below that of the run.
    run = base.parent if hasattr(request.config, "workerinput") else base
    return run / str(request.fixturename)


def made_once(directory: Path, make: Callable[[Path], None]) -> Path:
    """Return the directory, filled by `make` in one of the processes that ask for it."""
    directory.mkdir(exist_ok=True)
    with (directory / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        content, done = directory / "content", directory / "done"
        if not done.exists():
            content.mkdir()
            make(content)
            done.touch()
    return content
