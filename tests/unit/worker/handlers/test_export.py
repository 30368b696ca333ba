"""The `export` job: where its file goes, and how it ends."""

from collections.abc import AsyncIterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from manyhands.shared.settings import Settings, WarcSettings
from manyhands.worker.handlers import export  # noqa: F401 - registers the job
from manyhands.worker.jobs.outcomes import Dead, Done
from manyhands.worker.testing import run_job, set_up
from tests.support.archives import Archive


@pytest.fixture(autouse=True)
async def files(tmp_path: Path) -> AsyncIterator[Path]:
    files = tmp_path / "files"
    files.mkdir()
    settings = Settings(warc=WarcSettings(files=files))
    process = set_up(settings)
    yield files
    await process.resources.close()


async def test_a_file_becomes_a_table(files: Path) -> None:
    (files / "a.warc.gz").write_bytes(Archive.of_pages(20).data)

    result = await run_job("export", "a.warc.gz", "tables/today")

    assert isinstance(result.outcome, Done)
    assert (result.children, result.records) == ([], [])
    (table,) = (files / "tables" / "today").iterdir()
    assert pq.read_table(table).num_rows == 20


async def test_a_repeat_leaves_one_file(files: Path) -> None:
    (files / "a.warc.gz").write_bytes(Archive.of_pages(20).data)
    for _ in range(2):
        await run_job("export", "a.warc.gz", "tables")
    assert len(list((files / "tables").iterdir())) == 1


@pytest.mark.parametrize(
    ("source", "destination", "says"),
    [
        ("missing.warc.gz", "tables", "No such file"),
        ("a.warc.gz", "../outside", "not below WARC_FILES"),
        ("a.warc.gz", "/tmp/outside", "not below WARC_FILES"),
        ("a.warc.gz", "link", "not below WARC_FILES"),
        ("a.warc.gz", "https://example.com/", "HTTP URL"),
        ("a.warc.gz", "s3://somebody/else", "not below what WARC_S3_DESTINATIONS allows"),
        ("s3://somebody/a.warc.gz", "tables", "not below what WARC_S3_SOURCES allows"),
        ("a.warc.gz", "a.warc.gz", "exists"),
        ("b.html", "tables", "not a WARC file"),
    ],
)
async def test_what_can_never_be_done_is_dead_with_the_reason(
    files: Path, source: str, destination: str, says: str
) -> None:
    (files / "a.warc.gz").write_bytes(Archive.of_pages(2).data)
    (files / "b.html").write_bytes(b"<html>")
    (files / "link").symlink_to(files.parent)
    result = await run_job("export", source, destination)
    assert isinstance(result.outcome, Dead)
    assert says in str(result.outcome)
    assert not list(files.parent.rglob("*.parquet*"))
