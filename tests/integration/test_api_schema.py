"""schemathesis against the running service: whatever it thinks of, no answer is a mistake of ours,
and each is one that /openapi.json announces."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from devservers import BrokerServer, FaktoryServer
from devservers.api import ApiServer
from manyhands.api.keys import new_key
from tests.conftest import AnyServer

ROOT = Path(__file__).resolve().parent.parent.parent
# For each operation and kind of data, beside the cases that follow from the document.
EXAMPLES = 8
LEAST_CASES, LEAST_OF_JOBS = 500, 200
TIMEOUT_S = 230
# The same code whatever the broker is: once is enough.
WITH_CRAWLS = "CRAWL_STATE"
OF_CRAWLS = "^/(crawls|domains)"
# What these settings change; all else is the same code as without them.
OF_JOBS = "^/jobs"
CONFIG = """\
[checks]
# 501: what a Faktory cannot tell.
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 501]
negative_data_rejection.expected-statuses = [
    400, 401, 403, 404, 405, 409, 413, 415, 422, 429, "5xx",
]
"""
SECRET, ENTRY = new_key("schemathesis", "ingest+read+admin")


@pytest.mark.timeout(TIMEOUT_S + 10)
@pytest.mark.parametrize(
    ("kind", "settings", "arguments", "least"),
    [
        pytest.param(BrokerServer, {WITH_CRAWLS: ""}, [], LEAST_CASES, id="broker"),
        pytest.param(
            FaktoryServer,
            {},
            ["--exclude-path-regex", OF_CRAWLS],
            LEAST_CASES,
            id="faktory",
            marks=pytest.mark.proof,
        ),
        pytest.param(
            BrokerServer,
            {"API_KEYS": ENTRY},
            ["--header", f"X-API-Key: {SECRET}", "--include-path-regex", OF_JOBS],
            LEAST_OF_JOBS,
            id="with-keys",
            marks=pytest.mark.proof,
        ),
        pytest.param(
            BrokerServer,
            {"API_ALLOW_UNKNOWN_TYPES": "true"},
            ["--include-path-regex", OF_JOBS],
            LEAST_OF_JOBS,
            id="unknown-types",
            marks=pytest.mark.proof,
        ),
    ],
)
def test_every_answer_is_announced_and_none_is_a_mistake(
    tmp_path: Path,
    kind: type[AnyServer],
    settings: Mapping[str, str],
    arguments: list[str],
    least: int,
) -> None:
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    if WITH_CRAWLS in settings:
        settings = {WITH_CRAWLS: str(tmp_path / "state")}
    with kind() as server, ApiServer(server, settings=settings) as api:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli"),
                *("--config-file", str(tmp_path / "schemathesis.toml")),
                *("run", f"{api.url}/openapi.json", "--checks", "all", "--seed", "1"),
                # No schema can say what a URL is.
                *("--exclude-checks", "positive_data_acceptance"),
                *("--max-examples", str(EXAMPLES), "--no-color", *arguments),
            ],
            cwd=tmp_path,
            env=os.environ
            | {
                "PYTHONPATH": str(ROOT),
                "SCHEMATHESIS_HOOKS": "tests.support.schemathesis_hooks",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=TIMEOUT_S,
        )
        log = api.log_text
    report = "\n".join(line[:500] for line in done.stdout.splitlines())
    assert done.returncode == 0, f"{report}\n{done.stderr}\n{log}"
    generated = re.search(r"([0-9]+) generated", report)
    assert generated is not None and int(generated[1]) > least, report
    assert "Traceback" not in log
    assert SECRET not in log
