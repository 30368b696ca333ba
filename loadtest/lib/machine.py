"""Facts about the machine and the toolchains, so that a table can be judged later."""

import os
import platform
import sqlite3
import statistics
import subprocess
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import psutil
import psycopg

from devservers import PostgresServer
from loadtest.lib.programs import PEERS, find_go

SYNCS = 50
POSTGRES_SETTINGS = ("server_version", "synchronous_commit", "max_wal_size", "shared_buffers")
BASICS = ("cores", "cpu", "memory", "system", "python")


def facts() -> dict[str, str]:
    return {
        "cores": str(os.cpu_count()),
        "cpu": _cpu_model(),
        "memory": f"{psutil.virtual_memory().total / 2**30:.1f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "go": _first_line([find_go() or "go", "version"]),
        "rust": _first_line(["rustc", "--version"]),
        "faktory (PyPI)": version("faktory"),
        "faktory_worker_go": pinned(PEERS / "go" / "go.mod", "faktory_worker_go "),
        "faktory (Rust)": pinned(PEERS / "rust" / "Cargo.toml", "faktory = "),
    }


def basic_facts(*more: str) -> dict[str, str]:
    """Without the toolchains and peers that do not take part; `more` names those that do."""
    found = facts()
    return {name: found[name] for name in (*BASICS, *more)}


def package_versions(*packages: str) -> dict[str, str]:
    return {name: version(name) for name in packages}


def postgres_facts() -> dict[str, str]:
    """As the server runs that is measured: nothing is set but where it listens."""
    with PostgresServer() as server, psycopg.connect(server.url) as connection:
        found = connection.execute(
            "SELECT name, current_setting(name) FROM unnest(%s::text[]) AS wanted (name)",
            (list(POSTGRES_SETTINGS),),
        ).fetchall()
    return {"PostgreSQL": ", ".join(f"{name} {value}" for name, value in found)}


def sqlite_facts() -> dict[str, str]:
    return {"SQLite": sqlite3.sqlite_version} | disk_facts()


def disk_facts() -> dict[str, str]:
    disk = sync_ms(Path(tempfile.gettempdir()))
    return {"one page to disk": f"{disk:.2f} ms (median of fdatasync)"}


def sync_ms(directory: Path) -> float:
    """Return how long the disk takes to add a page to a file for good: the median, in ms."""
    times = []
    with tempfile.TemporaryFile(dir=directory) as file:
        for _ in range(SYNCS):
            before_s = time.perf_counter()
            os.write(file.fileno(), bytes(4096))
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - before_s)
    return statistics.median(times) * 1000


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _first_line(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return "not installed"
    return done.stdout.partition("\n")[0]


def pinned(file: Path, before: str) -> str:
    """Return the version that follows `before` on its line, without quotes and the `=`."""
    for line in file.read_text().splitlines():
        if before in line:
            return line.partition(before)[2].strip(' "=')
    return "unknown"
