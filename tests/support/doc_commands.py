"""The shell commands of a Markdown page, and how to run them: what a page tells its reader to type
must work."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
TIMEOUT_S = 60
_FENCE = re.compile(r"^```(\w*)[ \t]*\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)
# It runs until it is stopped.
_SERVICE = re.compile(r"manyhands (?:api|broker|worker)\s*(?:#.*)?$")


@dataclass(frozen=True)
class Block:
    """Code between fences. `line` is that of its first line of code."""

    language: str
    text: str
    line: int


# Behind the variables that are set for it.
_PROGRAM = re.compile(r"(?<!\S)(?:manyhands|python -m) ")


@dataclass(frozen=True)
class Command:
    """What stands in one block, and the JSON that the page shows as its answer, if any."""

    page: str
    line: int
    text: str
    answer: Any = None

    @property
    def is_service(self) -> bool:
        return _SERVICE.search(self.text.strip()) is not None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(text: str) -> list[Block]:
    return [
        Block(found[1], found[2], text.count("\n", 0, found.start(2)) + 1)
        for found in _FENCE.finditer(text)
    ]


def commands(page: Path, languages: tuple[str, ...] = ("sh",)) -> list[Command]:
    """One for each block of these languages, in the page's order. A block of JSON that follows
    is its answer."""
    found = blocks(page.read_text(encoding="utf-8"))
    return [
        Command(
            str(page.relative_to(ROOT)),
            block.line,
            block.text,
            json.loads(following.text) if following and following.language == "json" else None,
        )
        for block, following in zip(found, [*found[1:], None], strict=True)
        if block.language in languages
    ]


def run(
    command: Command,
    *,
    replaced: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> str:
    """Run it as its reader would, from the root of the checkout; what it printed. Fails when any
    part of it fails. `replaced` are addresses of the page by those of the test."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", shell_text(command, replaced)],
        cwd=ROOT,
        env=environment(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=timeout_s,
    )
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def start(
    command: Command,
    *,
    log: Path,
    replaced: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a service; the caller ends it. What it says goes to `log`."""
    with log.open("wb") as output:
        return subprocess.Popen(
            # The shell gives its place to the service: a signal to one is a signal to the other.
            ["bash", "-euo", "pipefail", "-c", _exec(shell_text(command, replaced))],
            cwd=ROOT,
            env=environment(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


def shell_text(command: Command, replaced: Mapping[str, str] | None = None) -> str:
    text = command.text
    for shown, real in (replaced or {}).items():
        text = text.replace(shown, real)
    return text


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """With the Python that runs the tests first on the PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return dict(os.environ) | {"PATH": path} | dict(more or {})


def _exec(text: str) -> str:
    one_line = text.strip().replace("\\\n", " ")
    return _PROGRAM.sub(r"exec \g<0>", one_line, count=1)


def shape(value: Any) -> Any:
    """What two answers have in common that differ in their values: members and types."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return (
        "number" if isinstance(value, int | float) and value is not True else type(value).__name__
    )
