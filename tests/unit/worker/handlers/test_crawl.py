"""Messages to the owner of a shard: what has come to the wrong one goes on to the right one."""

from typing import Any

import pytest

from manyhands.shared.crawl.messages import LinksMessage, ParsedPage
from manyhands.shared.crawl.store.model import LeaseLost
from manyhands.shared.jobs import utc_now
from manyhands.worker.handlers import crawl, owning
from manyhands.worker.testing import Done, run_job_sync

OURS, THEIRS = "https://ours.example/", "https://theirs.example/"
PAGES = [[7, "ab", url, 1, [], ""] for url in (OURS, THEIRS)]


class FakeAdmission:
    """Owns shard 0 of two, which has OURS."""

    def shard_of(self, url: str) -> int:
        return 0 if url == OURS else 1

    async def parsed(self, pages: list[ParsedPage]) -> list[ParsedPage]:
        return [page for page in pages if self.shard_of(page.url)]

    async def links(self, message: LinksMessage) -> None:
        if message.target:
            raise LeaseLost("it is not ours")


class FakeOwner:
    def __init__(self) -> None:
        self.admission = FakeAdmission()

    def queue_of(self, shard: int) -> str:
        return f"crawl.tag.{shard:02}"


@pytest.fixture(autouse=True)
def owner(monkeypatch: pytest.MonkeyPatch) -> None:
    assert crawl
    monkeypatch.setattr(owning, "_OWNERS", [FakeOwner()])


def test_parsed_pages_of_another_shard_go_to_its_queue():
    result = run_job_sync("parsed", PAGES)
    assert isinstance(result.outcome, Done)
    (again,) = result.children
    assert (again.jobtype, again.queue) == ("parsed", "crawl.tag.01")
    assert [page[2] for page in again.args[0]] == [THEIRS]
    assert again.at is not None and again.at > utc_now()


def test_links_for_another_shard_go_to_its_queue_whichever_queue_they_came_by():
    batches: list[Any] = [[3, 12, 7, [(THEIRS, 2, 0)]]]
    result = run_job_sync("links", 1, 1, batches)
    assert isinstance(result.outcome, Done)
    (again,) = result.children
    assert (again.jobtype, again.queue, again.args) == ("links", "crawl.tag.01", [1, 1, batches])
    assert again.at is not None and again.at > utc_now()


def test_links_for_our_own_shard_go_nowhere():
    result = run_job_sync("links", 1, 0, [[3, 12, 7, [[OURS, 2, 0]]]])
    assert isinstance(result.outcome, Done)
    assert result.children == []
