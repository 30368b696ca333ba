"""The `warc` job: the jobs that it makes, and how it ends."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import manyhands.worker.warc.chunks
from manyhands.shared.crawl.messages import NO_ANSWER, NO_CRAWL, FetchedPage
from manyhands.shared.errors import ConfigError
from manyhands.shared.jobtypes import JOB_TYPES
from manyhands.shared.settings import Settings, WarcSettings
from manyhands.worker.handlers import archives, parse
from manyhands.worker.handlers import warc as handler
from manyhands.worker.jobs.context import JobContext
from manyhands.worker.jobs.outcomes import Dead, Done, Failed, Retry
from manyhands.worker.net.fetcher import TemporaryFetchError
from manyhands.worker.records import PageRecord
from manyhands.worker.testing import TEST_JID, JobResult, make_delivery, run_job, set_up
from manyhands.worker.warc.reading import Position
from tests.support.archives import Archive, page_record, record_id


@pytest.fixture(autouse=True)
async def files(tmp_path: Path) -> AsyncIterator[Path]:
    settings = Settings(warc=WarcSettings(files=tmp_path))
    process = set_up(settings)
    yield tmp_path
    await process.resources.close()


async def run_all(source: str) -> list[JobResult]:
    """The job, and those that go on with it."""
    results = [await run_job("warc", source)]
    while results[-1].children and results[-1].children[-1].jobtype == "warc":
        following = results[-1].children[-1]
        results.append(await run_job("warc", *following.args))
    return results


def pages_of(result: JobResult) -> list[list[str]]:
    """The visits of each parse job."""
    return [
        [page[0] for page in child.args[1]]
        for child in result.children
        if child.jobtype == "parse_pages"
    ]


async def test_pages_become_parse_jobs_that_nobody_waits_for(files: Path) -> None:
    (files / "a.warc.gz").write_bytes(Archive.of_pages(20).data)

    result = await run_job("warc", "a.warc.gz")

    assert isinstance(result.outcome, Done)
    assert pages_of(result) == [
        [record_id(number) for number in range(16)],
        [record_id(number) for number in range(16, 20)],
    ]
    assert [(child.jid, child.queue) for child in result.children] == [
        (f"{TEST_JID}.0", "parse"),
        (f"{TEST_JID}.1", "parse"),
    ]
    assert {child.args[0] for child in result.children} == {NO_ANSWER}
    assert result.children[0].args[1][0][1] == NO_CRAWL


async def test_a_parse_job_of_an_archive_leaves_records_and_no_answer(files: Path) -> None:
    (files / "a.warc.gz").write_bytes(Archive.of_pages(2).data)
    (child,) = (await run_job("warc", "a.warc.gz")).children

    parsed = await run_job("parse_pages", *child.args)

    assert parsed.children == []
    first, second = parsed.records
    assert isinstance(first, PageRecord) and isinstance(second, PageRecord)
    assert (first.id, first.title, first.links) == (
        record_id(0),
        "Page 0",
        ["http://example.com/next/0"],
    )
    assert (first.crawl, first.visit, first.depth) == (None, None, None)
    assert second.id == record_id(1)


async def test_pages_of_an_archive_that_nobody_would_keep_are_an_error(files: Path) -> None:
    (files / "a.warc.gz").write_bytes(Archive.of_pages(1).data)
    (child,) = (await run_job("warc", "a.warc.gz")).children
    context = JobContext(make_delivery("parse_pages", child.args), None)
    answer_to, ((*page,),) = child.args
    with pytest.raises(ConfigError, match="no sink"):
        await parse.parse_pages(answer_to, [FetchedPage(*page)], context)


async def test_the_rest_of_a_file_is_the_last_job_that_is_pushed(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manyhands.worker.warc.chunks, "CHUNK_BYTES", 10_000)
    archive = Archive.of_pages(30)
    (files / "a.warc.gz").write_bytes(archive.data)

    results = await run_all("a.warc.gz")

    assert len(results) > 3
    visits = [visit for result in results for visits in pages_of(result) for visit in visits]
    assert visits == [record_id(number) for number in range(30)]
    rest = results[0].children[-1]
    assert (rest.jobtype, rest.queue) == ("warc", "warc")
    assert rest.args[0] == "a.warc.gz" and rest.args[1] in archive.offsets and rest.args[2] == 0
    kind = JOB_TYPES["warc"]
    assert (rest.retry, rest.reserve_for) == (kind.retry, kind.reserve_for_s)


async def test_a_repeat_makes_the_same_jobs(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manyhands.worker.warc.chunks, "CHUNK_BYTES", 10_000)
    (files / "a.warc.gz").write_bytes(Archive.of_pages(30).data)

    first = await run_job("warc", "a.warc.gz")
    again = await run_job("warc", "a.warc.gz", deliveries=2)

    assert [(job.jid, job.args) for job in first.children] == [
        (job.jid, job.args) for job in again.children
    ]
    assert len({job.jid for job in first.children}) == len(first.children)


def test_the_ids_of_later_chunks_do_not_grow() -> None:
    first = handler._next_job("a", Position(5), "job.attic")
    second = handler._next_job("a", Position(70, 3), first.jid)
    assert (first.jid, second.jid) == ("job.attic.at5.0", "job.attic.at70.3")


async def test_a_file_without_pages_leaves_nothing(files: Path) -> None:
    (files / "a.warc.gz").write_bytes(Archive.of([page_record(1, WARC_Type="resource")]).data)
    result = await run_job("warc", "a.warc.gz")
    assert isinstance(result.outcome, Done)
    assert result.children == []


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("missing.warc.gz", "No such file"),
        ("../a.warc.gz", "not below WARC_FILES"),
        ("page.html", "not a WARC file"),
        ("empty", "the file is empty"),
        ("http://127.0.0.1/a.warc.gz", "not a public address"),
        ("gopher://x", "not known"),
    ],
)
async def test_what_can_never_be_read_is_dead_with_the_reason(
    files: Path, source: str, says: str
) -> None:
    (files / "page.html").write_bytes(b"<!doctype html>")
    (files / "empty").write_bytes(b"")
    result = await run_job("warc", source)
    assert isinstance(result.outcome, Dead)
    assert says in str(result.outcome)


async def test_what_may_work_later_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Busy:
        retry_after_s: float | None = 30.0

        def open(self, _source: str) -> Any:
            raise TemporaryFetchError("busy", self.retry_after_s)

    busy = Busy()
    monkeypatch.setattr(archives, "SOURCES", busy)
    asked_for = await run_job("warc", "a")
    assert isinstance(asked_for.outcome, Retry) and asked_for.outcome.after_s == 30
    busy.retry_after_s = None
    failed = await run_job("warc", "a")
    assert isinstance(failed.outcome, Failed) and failed.outcome.error_type == "TemporaryFetchError"


async def test_damage_is_logged_with_its_place(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = Archive.of_pages(3)
    data = bytearray(archive.data)
    data[archive.offsets[1] + 30] ^= 1
    (files / "a.warc.gz").write_bytes(bytes(data))

    result = await run_job("warc", "a.warc.gz")

    assert pages_of(result) == [[record_id(0), record_id(2)]]
    logged = "".join(capsys.readouterr())
    assert "a part of an archive cannot be read" in logged
    assert str(archive.offsets[1]) in logged
