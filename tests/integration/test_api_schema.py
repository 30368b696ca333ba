"""schemathesis against the running service: whatever it thinks of, no answer is a mistake of ours,
and each is one that /openapi.json announces."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from api.keys import new_key
from devservers import BrokerServer, FaktoryServer
from devservers.api import ApiServer
from tests.conftest import AnyServer

ROOT = Path(__file__).resolve().parent.parent.parent
# For each operation and kind of data, beside the cases that follow from the document.
EXAMPLES = 8
LEAST_CASES = 500
TIMEOUT_S = 110
# The same code whatever the broker is: once is enough.
WITH_CRAWLS = "CRAWL_STATE"
OF_CRAWLS = "^/(crawls|domains)"
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
    ("kind", "settings", "headers"),
    [
        (BrokerServer, {WITH_CRAWLS: ""}, []),
        (FaktoryServer, {}, []),
        (BrokerServer, {"API_KEYS": ENTRY}, [f"X-API-Key: {SECRET}"]),
        (BrokerServer, {"API_ALLOW_UNKNOWN_TYPES": "true"}, []),
    ],
    ids=["broker", "faktory", "with-keys", "unknown-types"],
)
def test_every_answer_is_announced_and_none_is_a_mistake(
    tmp_path: Path, kind: type[AnyServer], settings: Mapping[str, str], headers: list[str]
) -> None:
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    has_crawls = WITH_CRAWLS in settings
    if has_crawls:
        settings = {WITH_CRAWLS: str(tmp_path / "state")}
    with kind() as server, ApiServer(server, settings=settings) as api:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli"),
                *("--config-file", str(tmp_path / "schemathesis.toml")),
                *("run", f"{api.url}/openapi.json", "--checks", "all", "--seed", "1"),
                # No schema can say what a URL is.
                *("--exclude-checks", "positive_data_acceptance"),
                *("--max-examples", str(EXAMPLES), "--no-color"),
                *(() if has_crawls else ("--exclude-path-regex", OF_CRAWLS)),
                *(argument for header in headers for argument in ("--header", header)),
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
    assert generated is not None and int(generated[1]) > LEAST_CASES, report
    assert "Traceback" not in log
    assert SECRET not in log
