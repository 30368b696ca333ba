"""An export all the way to S3: a table that pyarrow and DuckDB read back, or nothing."""

from collections.abc import AsyncIterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from obstore.store import S3Store

from manyhands.shared.settings import Settings, WarcSettings
from manyhands.shared.warc_places import ObjectAt
from manyhands.worker.handlers import export  # noqa: F401 - registers the job
from manyhands.worker.jobs.outcomes import Dead, Done, Failed
from manyhands.worker.net.fetcher import TemporaryFetchError
from manyhands.worker.testing import run_job, set_up
from manyhands.worker.warc import s3_objects
from manyhands.worker.warc.s3_objects import ObjectOutput
from tests.integration.warc.conftest import Put
from tests.support.archives import Archive, page

PAGES = 400


@pytest.fixture(autouse=True)
async def files(tmp_path: Path, bucket: str) -> AsyncIterator[Path]:
    allowed = (ObjectAt(bucket, ""), ObjectAt("no-such-bucket", ""))
    settings = Settings(
        warc=WarcSettings(files=tmp_path, s3_sources=allowed, s3_destinations=allowed)
    )
    process = set_up(settings)
    yield tmp_path
    await process.resources.close()


def tables(bucket_path: Path) -> list[Path]:
    return [path for path in bucket_path.rglob("*.parquet") if path.is_file()]


@pytest.mark.parametrize("prefix", ["", "/tables/2026"])
async def test_an_object_becomes_a_table_beside_it(
    bucket: str, bucket_path: Path, put: Put, prefix: str
) -> None:
    # Longer than one part of an upload.
    put("crawl/a.warc.gz", Archive.of_pages(PAGES, size=60_000).data)

    for _ in range(2):
        result = await run_job("export", f"s3://{bucket}/crawl/a.warc.gz", f"s3://{bucket}{prefix}")
        assert isinstance(result.outcome, Done)

    (table,) = tables(bucket_path)
    assert table.parent == bucket_path / prefix.strip("/")
    assert table.stat().st_size > s3_objects.PART_BYTES
    found = pq.read_table(table, columns=["url", "body"]).to_pydict()
    assert found["url"] == [f"http://example.com/{number}" for number in range(PAGES)]
    assert found["body"] == [page(number, 60_000) for number in range(PAGES)]


async def test_a_local_file_is_exported_to_s3(files: Path, bucket: str, bucket_path: Path) -> None:
    (files / "a.warc.gz").write_bytes(Archive.of_pages(3).data)
    result = await run_job("export", "a.warc.gz", f"s3://{bucket}/x")
    assert isinstance(result.outcome, Done)
    (table,) = tables(bucket_path)
    assert pq.read_table(table).num_rows == 3


async def test_what_is_abandoned_is_no_object(bucket: str, bucket_path: Path) -> None:
    output = ObjectOutput(ObjectAt(bucket, "half.parquet"))
    for _ in range(3):
        output.write(bytes(s3_objects.PART_BYTES))
    output.abandon()
    del output
    assert tables(bucket_path) == []


async def test_an_export_that_fails_leaves_no_object(
    bucket: str, bucket_path: Path, put: Put
) -> None:
    put("a.warc.gz", b"<html>")
    result = await run_job("export", f"s3://{bucket}/a.warc.gz", f"s3://{bucket}/x")
    assert isinstance(result.outcome, Dead)
    assert tables(bucket_path) == []


async def test_a_bucket_that_is_not_there_is_told(files: Path, bucket: str) -> None:
    (files / "a.warc.gz").write_bytes(Archive.of_pages(3).data)
    result = await run_job("export", "a.warc.gz", "s3://no-such-bucket/x")
    assert isinstance(result.outcome, Dead)
    assert "NoSuchBucket" in str(result.outcome)


async def test_credentials_that_do_not_do_are_told(
    files: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (files / "a.warc.gz").write_bytes(Archive.of_pages(3).data)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    result = await run_job("export", "a.warc.gz", f"s3://{bucket}/x")
    assert isinstance(result.outcome, Dead)
    assert "403 SignatureDoesNotMatch" in str(result.outcome)


async def test_a_server_that_is_gone_may_come_back(
    files: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (files / "a.warc.gz").write_bytes(Archive.of_pages(3).data)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    result = await run_job("export", "a.warc.gz", f"s3://{bucket}/x")
    assert isinstance(result.outcome, Failed)
    assert result.outcome.error_type == TemporaryFetchError.__name__


def test_nothing_is_asked_when_a_bucket_is_opened(bucket: str) -> None:
    assert isinstance(s3_objects.bucket_of(ObjectAt("no-such-bucket", "x")), S3Store)
