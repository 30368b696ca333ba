"""Whatever the services write is for their own user, also where the shell would let all read it."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from devservers import BrokerServer
from loadtest.web.synthetic_web import SyntheticWeb, WebSpec
from tests.conftest import StartWorker
from tests.support.broker_command import run_broker
from tests.support.crawling import HANDLERS, Crawling
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def open_shell() -> Iterator[None]:
    """As careless as can be."""
    before = os.umask(0)
    yield
    os.umask(before)


def open_to_others(directory: Path) -> list[str]:
    return [
        f"{stat.filemode(path.lstat().st_mode)} {path.name}"
        for path in [directory, *directory.rglob("*")]
        if not path.is_symlink() and path.lstat().st_mode & 0o077
    ]


async def test_broker_state_and_sinks_are_for_their_own_user(
    open_shell: None, tmp_path: Path, start_worker: StartWorker
) -> None:
    with BrokerServer() as broker, SyntheticWeb(WebSpec(hosts=2, pages=10)) as web:
        state, pages = tmp_path / "state", tmp_path / "pages"
        sinks = f"jsonl:{pages}/pages.ndjson,warc:{pages}/warc"
        settings = {
            "WORKER_HANDLERS": HANDLERS,
            "WORKER_STAGES": "crawl:1x20 parse:1x10",
            "CRAWL_STATE": str(state),
            "CRAWL_SHARDS": "2",
        }
        worker = start_worker(broker.url, **settings, **web.worker_settings, SINKS=sinks)
        # The worker makes the store, not this test.
        await worker.logs("crawl-0 is ready", 40)
        await eventually((state / "control.db").exists)
        crawling = Crawling(state, web, shards=2)
        await crawling.ended(crawling.start())
        backup = tmp_path / "backup"
        assert run_broker(broker.data_dir / "db", "backup", str(backup)).returncode == 0
        worker.terminate()
        assert await worker.ended(30) == 0
        crawling.close()
        assert open_to_others(broker.data_dir / "db") == []
        assert open_to_others(state) == []
        assert open_to_others(pages) == []
        assert backup.lstat().st_mode & 0o077 == 0
