"""Fetch the Java servers, pinned by java/pom.xml, once, into the checkout's .cache directory.

Unlike Go, Java and Maven are the machine's own: neither comes from PyPI. Where one is missing,
missing_for_java() says so, and the tests of these servers are left out.
"""

import functools
import hashlib
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from devservers.build import CACHE, BuildError, made_once, run_tool

POM = Path(__file__).resolve().parent / "java" / "pom.xml"


@functools.cache
def java_servers() -> Path:
    """Return the directory with the servers, and fetch them first if nobody has yet."""
    _require(missing_for_java())
    return made_once(_target(), _fetch_into)


def java() -> str:
    """Return the machine's Java."""
    found = shutil.which("java")
    _require([] if found else ["java"])
    return str(found)


def missing_for_java() -> list[str]:
    """Name the programs that the Java servers need and this machine has not."""
    needed = ["java"] if _target().is_dir() else ["java", "mvn"]
    return [name for name in needed if shutil.which(name) is None]


def _require(missing: Sequence[str]) -> None:
    if missing:
        raise BuildError(
            f"not on PATH: {', '.join(missing)}; "
            "Kafka and Elasticsearch need a JDK (17 to 23) and, to be fetched, Maven"
        )


def _target() -> Path:
    return CACHE / f"java-{hashlib.sha256(POM.read_bytes()).hexdigest()[:16]}"


def _fetch_into(target: Path) -> None:
    print("devservers: fetching Kafka and Elasticsearch ...", end="", flush=True)
    started = time.monotonic()
    run_tool(
        ["mvn", "--batch-mode", "--quiet", "package", f"-Dinto={target}"],
        directory=POM.parent,
        env=os.environ,
    )
    print(f" {time.monotonic() - started:.1f} s", flush=True)
