"""File sinks on a real S3 server: what is there in the end, and what a server that is missing,
refuses or is down does to them."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devservers import S3Server
from manyhands.shared.errors import ConfigError
from manyhands.worker.sinks.files import batches, file_sink
from manyhands.worker.sinks.files.jsonl import JsonlSink
from manyhands.worker.sinks.files.s3 import PART_BYTES, BucketTrouble
from manyhands.worker.sinks.files.warc import WarcSink
from tests.support.file_sinks import (
    KINDS,
    capture,
    credentials,
    download,
    jsonl_lines,
    on_s3,
    warc_files,
    warc_ids,
    warcio_complaints,
)
from tests.support.sink_records import page, plain, written
from tests.support.waiting import eventually


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """One of the test's own, that it may stop; its credentials are in the environment."""
    with S3Server() as server:
        for name, value in credentials(server).items():
            monkeypatch.setenv(name, value)
        server.make_bucket("records")
        yield server


@pytest.fixture
def use_small_segments(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def use(kind: str) -> None:
        monkeypatch.setattr(KINDS[kind].module, "SEALED_AT", KINDS[kind].sealed_at)

    return use


def ids_of(numbers: range) -> Counter[str]:
    return Counter(page(number).id for number in numbers)


def spooled(directory: Path) -> list[Path]:
    return [*directory.rglob("*.open"), *directory.rglob("*.part")]


@pytest.mark.parametrize("kind", KINDS)
async def test_records_are_objects_of_the_bucket_in_the_end(
    kind: str, server: S3Server, tmp_path: Path, use_small_segments: Callable[[str], None]
) -> None:
    use_small_segments(kind)
    sink = KINDS[kind].make(on_s3(kind, "records", tmp_path / "spool"))
    assert sink.name == f"{kind}+s3://records/some/where"
    await sink.open()
    for start in range(0, 60, 10):
        await sink.write([KINDS[kind].record(number) for number in range(start, start + 10)])
        # Whatever is repeated is there once.
        await sink.write([KINDS[kind].record(number) for number in range(start + 5)])
    await sink.close()
    found = download(server, "records", tmp_path / "found")
    assert KINDS[kind].ids(found) == ids_of(range(60))
    assert spooled(tmp_path / "spool") == []
    if kind == "warc":
        assert warcio_complaints(warc_files(found)) == ""


async def test_a_large_file_is_uploaded_in_parts(server: S3Server, tmp_path: Path) -> None:
    sink = WarcSink(on_s3("warc", "records", tmp_path / "spool"))
    await sink.open()
    large = [capture(number, body=os.urandom(PART_BYTES)) for number in range(3)]
    await sink.write(large)
    await sink.close()
    found = download(server, "records", tmp_path / "found")
    assert warc_ids(found) == ids_of(range(3))
    assert warcio_complaints(warc_files(found)) == ""


async def test_what_handlers_emit_is_compressed_lines(server: S3Server, tmp_path: Path) -> None:
    sink = JsonlSink(on_s3("jsonl", "records", tmp_path / "spool"))
    await sink.open()
    for number in range(3):
        await sink.write([plain(number)])
    await sink.close()
    found = download(server, "records", tmp_path / "found")
    assert jsonl_lines(found) == [{"number": number} for number in range(3)]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_bucket_that_is_not_there_is_a_wrong_setting(
    kind: str, server: S3Server, tmp_path: Path
) -> None:
    sink = KINDS[kind].make(f"{kind}+s3://missing/prefix?spool={tmp_path}")
    with pytest.raises(ConfigError, match=r"NoSuchBucket: The specified bucket does not exist\."):
        await sink.open()
    await sink.close()


@pytest.mark.parametrize(
    ("variable", "value"),
    [("AWS_SECRET_ACCESS_KEY", "wrong"), ("AWS_ACCESS_KEY_ID", "unknown")],
)
async def test_credentials_that_are_refused_are_a_wrong_setting(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    sink = WarcSink(on_s3("warc", "records", tmp_path))
    with pytest.raises(ConfigError, match=r"warc\+s3://records/some/where: \w+: ") as raised:
        await sink.open()
    assert "\n" not in str(raised.value)
    assert server.secret_key not in str(raised.value)
    await sink.close()


async def test_a_server_that_is_down_is_no_wrong_setting(server: S3Server, tmp_path: Path) -> None:
    server.kill()
    sink = WarcSink(on_s3("warc", "records", tmp_path))
    with pytest.raises(BucketTrouble, match="HTTP error") as raised:
        await sink.open()
    assert "\n" not in str(raised.value)
    server.start()
    await sink.open()
    await sink.close()


async def test_a_server_that_goes_down_holds_up_nothing_until_too_much_waits(
    server: S3Server,
    tmp_path: Path,
    use_small_segments: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_small_segments("jsonl")
    monkeypatch.setattr(file_sink, "LONGEST_DELAY_S", 0.5)
    monkeypatch.setattr(batches, "MOST_WAITING_SEGMENTS", 5)
    sink = JsonlSink(on_s3("jsonl", "records", tmp_path / "spool"))
    await sink.open()
    server.kill()
    number = 0
    with pytest.raises(batches.SpoolFull, match="5 files"):
        for number in range(100):
            await sink.write([page(number * 100 + one) for one in range(100)])
    assert number >= 5
    waiting = asyncio.create_task(written(sink, [page(number * 100 + n) for n in range(100)]))
    server.start()
    attempts = await waiting
    assert attempts > 1
    await eventually(lambda: len(spooled(tmp_path / "spool")) <= 1)
    await sink.close()
    found = download(server, "records", tmp_path / "found")
    assert KINDS["jsonl"].ids(found) == ids_of(range((number + 1) * 100))


async def test_what_is_not_uploaded_when_a_worker_stops_is_uploaded_by_the_next(
    server: S3Server, tmp_path: Path
) -> None:
    sink = WarcSink(on_s3("warc", "records", tmp_path / "spool"))
    await sink.open()
    await sink.write([capture(number) for number in range(10)])
    server.kill()
    await sink.close()
    assert len(spooled(tmp_path / "spool")) == 1
    server.start()
    successor = WarcSink(on_s3("warc", "records", tmp_path / "spool"))
    await successor.open()
    await successor.write([capture(number) for number in range(12)])
    await successor.close()
    found = download(server, "records", tmp_path / "found")
    assert warc_ids(found) == ids_of(range(12))
    assert spooled(tmp_path / "spool") == []


async def test_credentials_that_are_refused_later_hold_back_uploads_and_not_writes(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when they expire: nothing is lost, and a worker with new ones goes on."""
    monkeypatch.setattr(S3Server, "secret_key", "another")
    sink = WarcSink(on_s3("warc", "records", tmp_path / "spool"))
    await sink.open()
    server.restart()
    await sink.write([capture(1)])
    await sink.close()
    assert len(spooled(tmp_path / "spool")) == 1
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    successor = WarcSink(on_s3("warc", "records", tmp_path / "spool"))
    await successor.open()
    await successor.close()
    assert warc_ids(download(server, "records", tmp_path / "found")) == ids_of(range(1, 2))
