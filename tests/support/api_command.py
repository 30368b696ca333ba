"""`manyhands api` run to its end: starts that must fail, and its subcommand."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from manyhands.shared.settings.names import VARIABLE_PREFIXES

ROOT = Path(__file__).resolve().parent.parent.parent
TIMEOUT_S = 50


def run_api(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Its output is captured; one that does not end by itself is an error."""
    env = {
        name: value for name, value in os.environ.items() if not name.startswith(VARIABLE_PREFIXES)
    }
    with tempfile.TemporaryDirectory() as directory:
        return subprocess.run(
            [sys.executable, "-m", "manyhands.api", *arguments],
            # Where no .env and no YAML file of a developer's is.
            cwd=directory,
            env=env | {"PYTHONPATH": str(ROOT), "API_BIND": "127.0.0.1:0"} | settings,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=TIMEOUT_S,
        )


def refusal(*arguments: str, **settings: str) -> str:
    """The one line with which it ends when it cannot do what it is asked to."""
    done = run_api(*arguments, **settings)
    assert done.returncode == 1, done
    said = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("{")]
    assert len(said) == 1, done
    assert said[0].startswith("api: "), said
    return said[0].removeprefix("api: ")
