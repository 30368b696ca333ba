"""Every command of README.md and docs/NETWORK_TUNING.md, and the services of two other pages, as
their readers type them."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from devservers import BrokerServer
from devservers.api import ApiServer
from tests.support import doc_commands
from tests.support.broker_state import BrokerState
from tests.support.doc_commands import ROOT, Command
from tests.support.waiting import eventually

DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", DOCS / "NETWORK_TUNING.md")
SERVICE_PAGES = (*PAGES, DOCS / "FETCHING.md", DOCS / "OPERATIONS.md")
COMMANDS = [command for page in PAGES for command in doc_commands.commands(page)]
SERVICES = [
    command
    for page in SERVICE_PAGES
    for command in doc_commands.commands(page)
    if command.is_service
]
# `make` installs and tests everything: its targets are run by CI, test_demo.py and by hand.
MAKES = [command for command in COMMANDS if command.text.startswith("make ")]
# They change this machine, start a server that these tests have already, or go out into the web.
NOT_HERE = ("sysctl -w", "python -m devservers", "manyhands crawl https://")
OTHERS = [
    command
    for command in COMMANDS
    if command not in SERVICES
    and command not in MAKES
    and not any(word in command.text for word in NOT_HERE)
]


@pytest.fixture(scope="module")
def api(
    broker_process: BrokerServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiServer]:
    """With crawls, as `manyhands up` starts it."""
    settings = {"CRAWL_STATE": str(tmp_path_factory.mktemp("crawls"))}
    with ApiServer(broker_process, settings=settings) as api:
        yield api


@pytest.fixture(scope="module")
def handlers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with jobs.py as the README shows it."""
    directory = tmp_path_factory.mktemp("handlers")
    (shown,) = [
        block.text
        for block in doc_commands.blocks((ROOT / "README.md").read_text())
        if block.language == "python" and block.text.startswith("# jobs.py")
    ]
    (directory / "jobs.py").write_text(shown)
    return directory


def places(broker: BrokerServer, api: ApiServer | None = None) -> dict[str, str]:
    """What the pages show, and what is there in its place."""
    shown = {"tcp://127.0.0.1:7419": broker.url, "tcp://localhost:7419": broker.url}
    if api is not None:
        shown |= {"http://127.0.0.1:3000": api.url, "http://localhost:3000": api.url}
    return shown


@pytest.mark.parametrize("command", OTHERS, ids=str)
def test_a_command_works(broker_process: BrokerServer, api: ApiServer, command: Command) -> None:
    printed = doc_commands.run(command, replaced=places(broker_process, api))
    assert '"status":4' not in printed
    assert '"status":5' not in printed


@pytest.mark.parametrize("command", SERVICES, ids=str)
async def test_a_service_starts_and_stops(
    broker_process: BrokerServer, handlers: Path, tmp_path: Path, command: Command
) -> None:
    log = tmp_path / "log"
    process = doc_commands.start(
        command,
        log=log,
        replaced=places(broker_process) | {"pages.ndjson": str(tmp_path / "pages.ndjson")},
        env={
            "API_BIND": "127.0.0.1:0",
            "BROKER_BIND": "127.0.0.1:0",
            "BROKER_HTTP_BIND": "127.0.0.1:0",
            "BROKER_DATA": str(tmp_path / "broker"),
            "FAKTORY_URL": broker_process.url,
            "WORKER_HTTP_BIND": "127.0.0.1:0",
            "PYTHONPATH": str(handlers),
        },
    )
    try:
        await eventually(
            lambda: re.search(r'"event": "(\S+ is )?ready"', log.read_text()),
            40,
            "it did not start",
        )
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("command", MAKES, ids=str)
def test_make_knows_its_targets(command: Command) -> None:
    for line in command.text.strip().splitlines():
        target = line.split("#")[0].split()[1]
        subprocess.run(["make", "--dry-run", target], cwd=ROOT, check=True, capture_output=True)


def test_the_producer_of_the_readme_pushes_its_job(broker_process: BrokerServer) -> None:
    (shown,) = [
        block.text
        for block in doc_commands.blocks((ROOT / "README.md").read_text())
        if block.language == "python" and not block.text.startswith("# jobs.py")
    ]
    for text, real in places(broker_process).items():
        shown = shown.replace(text, real)
    broker = BrokerState(broker_process)
    before = broker.info()["total_enqueued"]
    subprocess.run([sys.executable, "-c", shown], check=True, timeout=60)
    assert broker.info()["total_enqueued"] == before + 1


def test_the_first_post_of_the_guide_is_accepted(api: ApiServer) -> None:
    """As `curl -d` sends it: with the content type of a form."""
    answer = httpx.post(
        f"{api.url}/jobs/add",
        content=b'{"a": 1, "b": 1}',
        headers={"Content-Type": "application/x-www-form-urlencoded"},
        trust_env=False,
        timeout=20,
    )
    assert (answer.status_code, set(answer.json())) == (202, {"jid", "queue"})
