"""Packages of the machine's own Debian or Ubuntu, downloaded and unpacked, never installed: no root
is needed."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from devservers.build import run_tool

TOOLS = ("apt-get", "dpkg-deb")


def missing_tools() -> list[str]:
    """Name the programs that are needed and that this machine has not."""
    return [name for name in TOOLS if shutil.which(name) is None]


def unpack_packages(names: Sequence[str], target: Path) -> None:
    """Fetch these packages of the machine's release, and put their files below `target`."""
    packages = target.parent / "packages"
    packages.mkdir()
    run_tool(["apt-get", "download", *names], directory=packages, env=os.environ)
    for package in sorted(packages.glob("*.deb")):
        run_tool(["dpkg-deb", "-x", str(package), str(target)], directory=packages, env=os.environ)
