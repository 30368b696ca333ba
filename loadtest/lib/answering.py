"""Processes that do one thing, print what came of it as JSON, and end."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from loadtest.lib.errors import RunError

# Of what a process said of its end; characters.
ERROR_TAIL = 500


def answer_of(
    command: Sequence[str],
    who: str,
    timeout_s: float,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Any:
    """Wait for the answer. Raises RunError with the end of what it said on stderr."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    if done.returncode:
        raise RunError(done.stderr.strip()[-ERROR_TAIL:] or f"{who} ended with {done.returncode}")
    return json.loads(done.stdout)


def module_command(module: str, order: Mapping[str, Any]) -> list[str]:
    """Of a module that is given its order as JSON."""
    return [sys.executable, "-m", module, json.dumps(order)]
