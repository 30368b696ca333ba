"""`manyhands api` run to its end: starts that must fail, and its subcommand."""

import json
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
    return last_refusal("api", done.stdout + done.stderr)


def last_refusal(service: str, text: str) -> str:
    """Every line is one of its log, and one says why it ended; or, of a subcommand, the only line
    that is none does."""
    lines = text.splitlines()
    plain = [line for line in lines if not line.startswith("{")]
    logged = [json.loads(line) for line in lines if line.startswith("{")]
    ends = [line["event"] for line in logged if line["level"] == "critical"]
    said = ends + [line.removeprefix(f"{service}: ") for line in plain]
    assert len(said) == 1, text
    assert not plain or plain[0].startswith(f"{service}: "), text
    return str(said[0])
