"""Real documentation as Debian packs it, fetched once into the checkout's .cache directory, the
nginx that serves it, and the wget that we are compared with.

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
TARGET = CACHE / "debian-documentation-2"
# Each is only a name for that of one version.
NAMES = {"python3-doc": r"python3\.\d+-doc", "postgresql-doc": r"postgresql-doc-\d+"}


@functools.cache
def documentation() -> Path:
    """Return what is /usr/share/doc of the packages `python3-doc`, `sqlite3-doc` and
    `postgresql-doc`."""
    return _root() / "usr" / "share" / "doc"


def wget() -> Path:
    """Return the machine's wget, or that of its release."""
    installed = shutil.which("wget")
    return Path(installed) if installed else _root() / "usr" / "bin" / "wget"


def nginx() -> Path:
    """Return the machine's nginx, or that of its release."""
    installed = shutil.which("nginx")
    return Path(installed) if installed else _root() / "usr" / "sbin" / "nginx"


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
    names = ["sqlite3-doc"]
    for name, pattern in NAMES.items():
        names += [name, *_depends(name, pattern, packages)]
    names += [tool for tool in ("wget", "nginx") if not shutil.which(tool)]
    _run(["apt-get", "download", *names], packages)
    for package in sorted(packages.glob("*.deb")):
        _run(["dpkg-deb", "--extract", str(package), str(target)], packages)


def _depends(name: str, pattern: str, directory: Path) -> list[str]:
    said = _run(["apt-cache", "depends", name], directory)
    found = re.findall(f"Depends: ({pattern})", said)
    if not found:
        raise BuildError(f"apt does not know {name}: run apt-get update first")
    return found


def _run(command: Sequence[str], directory: Path) -> str:
    return run_tool(command, directory=directory, env=os.environ)
