"""Settings as processes read them: `manyhands worker config`, and services by their options."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import httpx
import yaml

from devservers import BrokerServer
from devservers.api import ApiServer
from devservers.checkout import ROOT
from devservers.processes import Child, wait_until
from manyhands.shared.settings.names import VARIABLE_PREFIXES

PASSWORD = "hunter2"


def inherited() -> dict[str, str]:
    others = {
        name: value for name, value in os.environ.items() if not name.startswith(VARIABLE_PREFIXES)
    }
    return others | {"PYTHONPATH": str(ROOT)}


def worker(directory: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "manyhands.worker", *arguments],
        cwd=directory,
        env=inherited() | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=50,
    )


def test_a_worker_says_where_each_of_its_settings_came_from(tmp_path: Path) -> None:
    (tmp_path / "manyhands.yaml").write_text(
        "worker:\n  concurrency: 1\n  queues: of yaml\n  idle_fetches: 9\n"
        "stages: {fetch: {weight: 3}}\nbroker: {bind: '0.0.0.0:1'}\n"
    )
    (tmp_path / ".env").write_text("WORKER_CONCURRENCY=2\nWORKER_QUEUES='of dotenv'\nOTHER=1\n")
    (tmp_path / "url").write_text(f"tcp+tls://:{PASSWORD}@faktory.example:7419\n")
    done = worker(
        tmp_path,
        *("config", "--origin", "--worker-concurrency", "4"),
        WORKER_CONCURRENCY="3",
        FAKTORY_URL_FILE="url",
        FAKTORY_SERVICE_HOST="10.0.0.1",
        SINKS="",
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    for line in (
        '  url: "tcp+tls://********@faktory.example:7419"  # environment FAKTORY_URL_FILE, url',
        "  concurrency: 4  # command line --worker-concurrency",
        '  queues: "of dotenv"  # .env line 2',
        "  idle_fetches: 9  # manyhands.yaml line 4",
        "    weight: 3  # manyhands.yaml line 5",
        "  urls: []  # default",
        "  soft_jobs: 20000  # default",
    ):
        assert line in lines
    assert yaml.safe_load(done.stdout)["worker"]["concurrency"] == 4
    assert PASSWORD not in done.stdout


def test_what_is_wrong_is_one_line_on_stderr(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("worker: {concurency: 5}\n")
    done = worker(tmp_path, "--config", "mine.yaml", "config", WORKER_QUEUE="a", CRAWL_SHARDS="x")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        "worker: WORKER_QUEUE is not a setting (did you mean WORKER_QUEUES?); "
        "mine.yaml line 1: worker.concurency is not a setting "
        "(did you mean worker.concurrency?); "
        "CRAWL_SHARDS: Input should be a valid integer"
    )
    assert done.stderr.count("\n") == 1


class ApiByOptions(ApiServer):
    """`manyhands api` with everything on its command line."""

    def __init__(self, broker: BrokerServer, *options: str) -> None:
        super().__init__(broker)
        self._options = ["--faktory-url", broker.url, "--faktory-web-url", broker.web_url, *options]

    def _start_child(self, ports: Sequence[int]) -> Child:
        bind = f"127.0.0.1:{ports[0]}"
        command = [sys.executable, "-m", "manyhands.api", "--api-bind", bind, *self._options]
        return Child(command, log=self.log, env=inherited())


def test_options_reach_every_process_of_the_api(broker_process: BrokerServer) -> None:
    options = ("--api-processes", "2", "--api-allow-unknown-types", "true")
    with ApiByOptions(broker_process, *options) as api:
        # The first that listens is enough to be up.
        assert wait_until(lambda: api.log_text.count('"event": "ready"') == 2, 20), api.log_text
        statuses = set()
        for _ in range(40):
            # A connection each, so that both get some.
            with httpx.Client(base_url=api.url, trust_env=False, timeout=15) as http:
                statuses.add(http.post("/jobs/unheard-of", json={}).status_code)
        assert statuses == {202}
        assert "Traceback" not in api.log_text


def test_a_broker_has_its_password_from_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{PASSWORD}\n")

    class BrokerWithFile(BrokerServer):
        def _start_child(self, ports: Sequence[int]) -> Child:
            port, web_port = ports
            env = inherited() | {
                "BROKER_BIND": f"127.0.0.1:{port}",
                "BROKER_HTTP_BIND": f"127.0.0.1:{web_port}",
                "BROKER_PASSWORD_FILE": str(secret),
            }
            command = [sys.executable, "-m", "manyhands.broker"]
            return Child(command, log=self.data_dir / "broker.log", env=env)

    with BrokerWithFile(password=PASSWORD) as server:
        good = httpx.get(
            f"{server.web_url}/stats", auth=("", PASSWORD), trust_env=False, timeout=20
        )
        bad = httpx.get(
            f"{server.web_url}/stats", auth=("", "another"), trust_env=False, timeout=20
        )
        assert (good.status_code, bad.status_code) == (200, 401)
