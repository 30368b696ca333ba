"""Every command of docs/API.md, run against a live service on our broker."""

import json
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from devservers import BrokerServer
from devservers.api import ApiServer
from manyhands.api.keys import new_key, parse_keys
from manyhands.api.openapi import ANSWERS
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.sqlite.directory import open_control
from manyhands.shared.settings import CrawlSettings
from tests.support import doc_commands
from tests.support.crawl_state import crawled
from tests.support.doc_commands import ROOT, Command, shape
from tests.support.waiting import eventually

COMMANDS = doc_commands.commands(ROOT / "docs" / "API.md")
SHOWN = "http://localhost:3000"


@pytest.fixture(scope="module")
def api(
    broker_process: BrokerServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiServer]:
    state = tmp_path_factory.mktemp("crawls")
    settings = {"CRAWL_STATE": str(state), "RESULTS": f"jsonl:{state}/pages.ndjson"}
    with ApiServer(broker_process, settings=settings) as api:
        with httpx.Client(base_url=api.url, trust_env=False, timeout=20) as http:
            for path in ("/jobs/add", "/jobs/add?queue=slow&in=60"):
                http.post(path, json={"a": 1, "b": 2}).raise_for_status()
        _begin_crawls(api, state)
        yield api
        assert "Traceback" not in api.log_text


def _begin_crawls(api: ApiServer, state: Path) -> None:
    """The first one runs and has fetched a few pages, the second one waits for seeds."""
    first = {"contact": "me@example.org", "seeds": ["https://example.org/"]}
    second = {"contact": "me@example.org", "more_seeds": True}
    for body in (first, second):
        httpx.post(f"{api.url}/crawls", json=body, trust_env=False, timeout=20).raise_for_status()
    with closing(open_control(state)) as control:
        control.change_state(1, [CrawlState.STARTING], CrawlState.RUNNING, time.time() - 60)
        control.note(1, "3 URLs were queued again", time.time())
    crawled(state, CrawlSettings().shards, 1, "example.org", "/", "/404", "/fly", "/wait")


@pytest.mark.parametrize(
    "command", [command for command in COMMANDS if not command.is_service], ids=str
)
def test_a_command_of_the_page_does_what_the_page_says(api: ApiServer, command: Command) -> None:
    printed = doc_commands.run(command, replaced={SHOWN: api.url}, env={"KEY": "mh_any"})
    if command.answer is not None:
        assert shape(json.loads(printed)) == shape(command.answer)
    assert '"status":5' not in printed


async def test_the_service_starts_as_the_page_says(
    broker_process: BrokerServer, tmp_path: Path
) -> None:
    (command,) = [command for command in COMMANDS if command.is_service]
    log = tmp_path / "log"
    process = doc_commands.start(
        command,
        log=log,
        replaced={"tcp://127.0.0.1:7419": broker_process.url},
        env={"API_BIND": "127.0.0.1:0"},
    )
    try:
        await eventually(lambda: '"event": "ready"' in log.read_text(), 40, "it did not start")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()


def test_a_key_made_by_the_page_opens(broker_process: BrokerServer) -> None:
    (command,) = [command for command in COMMANDS if "api key" in command.text]
    secret, entry = (line.rpartition(" ")[2] for line in doc_commands.run(command).splitlines())
    assert parse_keys(entry, 0.0, 0.0).find(secret.encode())
    assert new_key("ci", "read")[0] != secret


def test_the_page_has_an_example_of_every_route() -> None:
    text = "".join(command.text for command in COMMANDS)
    examples = {
        "/jobs/{name}": "/jobs/$JID",
        "/queues/{name}/{action}": "/queues/slow/pause",
        "/sets/{name}": "/sets/scheduled?",
        "/sets/{name}/{action}": "/sets/scheduled/requeue",
        # Made by a worker, not by hand.
        "/jobs/parse": "",
        "/crawls/{crawl}": "/crawls/1",
        "/crawls/{crawl}/urls": "/crawls/1/urls?",
        "/crawls/{crawl}/errors": "/crawls/1/errors",
        "/crawls/{crawl}/pages": "/crawls/1/pages?",
        "/crawls/{crawl}/links": "/crawls/1/links",
        "/crawls/{crawl}/seeds": "/crawls/2/seeds",
        "/crawls/{crawl}/pause": "/crawls/1/pause",
        "/crawls/{crawl}/resume": "/crawls/1/resume",
        "/crawls/{crawl}/cancel": "/crawls/1/cancel",
        "/crawls/{crawl}/domains/{domain}": "/crawls/1/domains/example.org",
        "/crawls/{crawl}/domains/{domain}/queued": "/crawls/1/domains/example.org/queued",
        "/domains/{domain}": "/domains/example.org",
        "/domains/{domain}/queued": "/domains/example.org/queued",
    }
    for path, _ in ANSWERS:
        assert (
            SHOWN + examples[path] in text
            if examples.get(path)
            else path in examples or path in text
        )
