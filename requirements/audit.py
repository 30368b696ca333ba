"""Whether any package of the lock has a known vulnerability, by what PyPI says of its releases.

`make audit`. Where PyPI cannot be asked it says that nothing was checked, and that is no failure:
an index that is a copy has packages, but no advisories.
"""

import asyncio
import re
import sys
from pathlib import Path

import httpx
from pip._internal.models.index import PyPI

LOCK = Path(__file__).resolve().parent / "dev.lock"
# Where pip goes unless it is told otherwise: it knows the address best.
ADVISORIES = f"{PyPI.pypi_url}/{{name}}/{{version}}/json"
PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^ \\;]+)", re.MULTILINE)
AT_ONCE = 10
TIMEOUT_S = 10.0


class NotAnswered(Exception):
    """There is no database, or it does not know the release."""


def pinned(lock: str) -> list[tuple[str, str]]:
    return PINNED.findall(lock)


async def advisories(client: httpx.AsyncClient, name: str, version: str) -> list[str]:
    """Raises NotAnswered."""
    try:
        answer = await client.get(ADVISORIES.format(name=name, version=version))
        answer.raise_for_status()
        found = answer.json()["vulnerabilities"]
    except httpx.HTTPStatusError as error:
        raise NotAnswered(f"HTTP {error.response.status_code}") from error
    except (httpx.HTTPError, ValueError, LookupError, TypeError) as error:
        raise NotAnswered(type(error).__name__) from error
    return [
        f"{name} {version}: {one['id']}: mended in {', '.join(one['fixed_in']) or 'no release'}"
        for one in found
        if not one.get("withdrawn")
    ]


async def audit(packages: list[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """What was found, and what could not be asked for."""
    found: list[str] = []
    unanswered: list[str] = []
    gate = asyncio.Semaphore(AT_ONCE)

    async def look(client: httpx.AsyncClient, name: str, version: str) -> None:
        async with gate:
            try:
                found.extend(await advisories(client, name, version))
            except NotAnswered:
                unanswered.append(f"{name} {version}")

    async with httpx.AsyncClient(timeout=TIMEOUT_S, follow_redirects=True) as client:
        await advisories(client, *packages[0])
        await asyncio.gather(*(look(client, *package) for package in packages))
    return sorted(found), sorted(unanswered)


def say(text: str) -> None:
    sys.stdout.write(f"audit: {text.splitlines()[0]}\n")


def main() -> int:
    packages = pinned(LOCK.read_text())
    try:
        found, unanswered = asyncio.run(audit(packages))
    except NotAnswered as error:
        say(f"no advisory database could be reached: nothing was checked ({error})")
        return 0
    if unanswered:
        say(f"not checked: {', '.join(unanswered)}")
    for line in found:
        say(f"{line}")
    say(f"{len(packages) - len(unanswered)} packages checked, {len(found)} advisories")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
