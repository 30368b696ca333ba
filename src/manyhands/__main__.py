"""`manyhands COMMAND`: becomes the service of that name, or the command line for all the others.

By exec, so that a service is the very process that was started and loads only what it needs.
"""

import os
import re
import sys
from importlib import metadata
from typing import NoReturn

SERVICES = ("api", "broker", "worker")
COMMANDS = "cli"
# `httpx>=0.28; extra == "cli"`
REQUIREMENT = re.compile(r"""(?P<name>[\w.-]+).*;.*\bextra\s*==\s*["'](?P<extra>[\w-]+)["']""")


def main() -> NoReturn:
    arguments = sys.argv[1:]
    is_service = bool(arguments) and arguments[0] in SERVICES
    package = arguments.pop(0) if is_service else COMMANDS
    if missing := missing_packages(package):
        sys.stderr.write(
            f"manyhands: {', '.join(missing)} not installed: pip install 'manyhands[{package}]'\n"
        )
        sys.exit(1)
    command = [sys.executable, "-m", f"manyhands.{package}", *arguments]
    os.execv(command[0], command)


def missing_packages(extra: str) -> list[str]:
    """What this extra asks for and is not installed."""
    try:
        requirements = metadata.requires("manyhands") or []
    except metadata.PackageNotFoundError:
        # A checkout on the path: nobody says what it needs.
        return []
    found = (REQUIREMENT.match(requirement) for requirement in requirements)
    names = {match["name"] for match in found if match is not None and match["extra"] == extra}
    return sorted(name for name in names if not _is_installed(name))


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


if __name__ == "__main__":
    main()
