"""`manyhands broker` run to its end: starts that must fail, and its subcommands."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from manyhands.shared.settings.names import VARIABLE_PREFIXES
from tests.support.api_command import last_refusal

ROOT = Path(__file__).resolve().parent.parent.parent
TIMEOUT_S = 50


def broker_environment(data: Path, **settings: str) -> dict[str, str]:
    env = {
        name: value for name, value in os.environ.items() if not name.startswith(VARIABLE_PREFIXES)
    }
    return (
        env
        | {
            "BROKER_DATA": str(data),
            "BROKER_BIND": "127.0.0.1:0",
            "BROKER_HTTP_BIND": "127.0.0.1:0",
        }
        | settings
    )


def run_broker(
    data: Path, *arguments: str | Path, **settings: str
) -> subprocess.CompletedProcess[str]:
    """Its output is captured; one that does not end by itself is an error."""
    with tempfile.TemporaryDirectory() as directory:
        return subprocess.run(
            [sys.executable, "-m", "manyhands.broker", *map(str, arguments)],
            # Where no .env and no YAML file of a developer's is.
            cwd=directory,
            env=broker_environment(data, PYTHONPATH=str(ROOT), **settings),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=TIMEOUT_S,
        )


def refusal(data: Path, *arguments: str | Path, **settings: str) -> str:
    """The one line with which it ends when it cannot do what it is asked to."""
    done = run_broker(data, *arguments, **settings)
    assert done.returncode == 1, done
    return last_refusal("broker", done.stdout + done.stderr)
