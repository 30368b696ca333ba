"""Real documentation as Debian packs it, fetched once into the checkout's .cache directory, and the
wget that it is compared with.

Packages are downloaded and unpacked, never installed: no root is needed. They are those of the
machine's own release; where there is no apt, missing_for_debian() says so, and the tests that need
them are left out.
"""

import functools
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from devservers.build import CACHE, BuildError, made_once, run_tool

TOOLS = ("apt-get", "apt-cache", "dpkg-deb")
TARGET = CACHE / "debian-documentation"


@functools.cache
def documentation() -> Path:
    """Return what is /usr/share/doc of the packages `python3-doc` and `sqlite3-doc`."""
    return _root() / "usr" / "share" / "doc"


def wget() -> Path:
    """Return the machine's wget, or that of its release."""
    installed = shutil.which("wget")
    return Path(installed) if installed else _root() / "usr" / "bin" / "wget"


def missing_for_debian() -> list[str]:
    """Name the programs that are needed and that this machine has not."""
    return [] if TARGET.is_dir() else [name for name in TOOLS if shutil.which(name) is None]


def _root() -> Path:
    missing = missing_for_debian()
    if missing:
        raise BuildError(f"not on PATH: {', '.join(missing)}; documentation comes as packages")
    return made_once(TARGET, _fetch_into)


def _fetch_into(target: Path) -> None:
    packages = target.parent / "packages"
    packages.mkdir()
    names = ["python3-doc", *_documentation_of_python(packages), "sqlite3-doc"]
    names += [] if shutil.which("wget") else ["wget"]
    _run(["apt-get", "download", *names], packages)
    for package in sorted(packages.glob("*.deb")):
        _run(["dpkg-deb", "--extract", str(package), str(target)], packages)


def _documentation_of_python(directory: Path) -> list[str]:
    """`python3-doc` is only a name for that of one version."""
    said = _run(["apt-cache", "depends", "python3-doc"], directory)
    found = re.findall(r"Depends: (python3\.\d+-doc)", said)
    if not found:
        raise BuildError("apt does not know python3-doc: run apt-get update first")
    return found


def _run(command: Sequence[str], directory: Path) -> str:
    return run_tool(command, directory=directory, env=os.environ)
