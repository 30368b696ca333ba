"""Records as lines of a file: durable when `write` returns, whole lines only, one file each."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import ConfigError
from worker.sinks import ndjson
from worker.sinks.ndjson import LineFile, NdjsonSink


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pages.ndjson"


@pytest.fixture
async def sink(path: Path) -> AsyncIterator[NdjsonSink]:
    sink = NdjsonSink.open(path)
    yield sink
    await sink.close()


def records(path: Path) -> list[Any]:
    text = path.read_bytes()
    assert text == b"" or text.endswith(b"\n")
    return [orjson.loads(line) for line in text.splitlines()]


def sink_behind(path: Path, text: bytes) -> NdjsonSink:
    """A sink on a file that holds something already."""
    path.write_bytes(text)
    return NdjsonSink.open(path)


class Disk:
    """Stands between the sink and the system: counts fsyncs, and fails when told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fsyncs = 0
        self.room: int | None = None
        self.fsync_error: OSError | None = None
        self._pwrite, self._fdatasync = os.pwrite, os.fdatasync
        monkeypatch.setattr(os, "pwrite", self.pwrite)
        monkeypatch.setattr(os, "fdatasync", self.fdatasync)

    def pwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        if self.room is not None:
            if not self.room:
                raise OSError(errno.ENOSPC, "No space left on device")
            data = data[: self.room]
            self.room -= len(data)
        return self._pwrite(descriptor, data, offset)

    def fdatasync(self, descriptor: int) -> None:
        self.fsyncs += 1
        if self.fsync_error is not None:
            error, self.fsync_error = self.fsync_error, None
            raise error
        self._fdatasync(descriptor)


@pytest.fixture
async def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


async def test_a_record_is_in_the_file_when_write_returns(sink: NdjsonSink, path: Path, disk: Disk):
    await sink.write([{"id": "1", "title": "ä\n\u2028"}])
    assert records(path) == [{"id": "1", "title": "ä\n\u2028"}]
    assert disk.fsyncs == 1


async def test_records_of_many_jobs_share_an_fsync(sink: NdjsonSink, path: Path, disk: Disk):
    await asyncio.gather(*(sink.write([{"id": str(number)}]) for number in range(500)))
    assert {record["id"] for record in records(path)} == {str(number) for number in range(500)}
    assert disk.fsyncs <= 2


async def test_write_returns_only_after_the_fsync(
    sink: NdjsonSink, monkeypatch: pytest.MonkeyPatch
):
    order: list[str] = []
    real = os.fdatasync

    def slow(descriptor: int) -> None:
        real(descriptor)
        order.append("synced")

    monkeypatch.setattr(os, "fdatasync", slow)
    await sink.write([{"id": "1"}])
    order.append("returned")
    assert order == ["synced", "returned"]


async def test_several_records_of_one_job_stay_together(sink: NdjsonSink, path: Path):
    await sink.write([{"id": "a"}, {"id": "b"}, ["no", "object"]])
    assert records(path) == [{"id": "a"}, {"id": "b"}, ["no", "object"]]


async def test_an_id_that_the_file_has_is_not_written_again(sink: NdjsonSink, path: Path):
    await sink.write([{"id": "a", "n": 1}])
    await sink.write([{"id": "a", "n": 2}, {"id": "b"}])
    assert records(path) == [{"id": "a", "n": 1}, {"id": "b"}]


async def test_a_record_without_an_id_is_always_written(sink: NdjsonSink, path: Path):
    for _ in range(2):
        await sink.write([{"n": 1}, {"id": 7}, "text"])
    assert len(records(path)) == 6


async def test_ids_are_known_again_after_a_restart(path: Path):
    first = NdjsonSink.open(path)
    await first.write([{"id": "a"}])
    await first.close()
    second = NdjsonSink.open(path)
    await second.write([{"id": "a"}, {"id": "b"}])
    await second.close()
    assert records(path) == [{"id": "a"}, {"id": "b"}]


async def test_only_the_end_of_a_long_file_is_read_for_ids(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ndjson, "TAIL_BYTES", 20)
    sink = sink_behind(path, b'{"id":"old"}\n{"id":"middle"}\n{"id":"new"}\n')
    await sink.write([{"id": "old"}, {"id": "new"}])
    await sink.close()
    assert [record["id"] for record in records(path)] == ["old", "middle", "new", "old"]


async def test_the_ids_that_are_remembered_are_bounded(
    sink: NdjsonSink, path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ndjson, "IDS_REMEMBERED", 2)
    for name in ("a", "b", "c", "a", "c"):
        await sink.write([{"id": name}])
    assert [record["id"] for record in records(path)] == ["a", "b", "c", "a"]


# Torn lines


@given(st.binary(max_size=60))
def test_a_line_that_a_crash_cut_off_is_removed(tmp_path_factory, torn):
    path = tmp_path_factory.mktemp("torn") / "pages.ndjson"
    path.write_bytes(b'{"id":"a"}\n' + torn)
    LineFile.open(path).close()
    text = path.read_bytes()
    assert text.startswith(b'{"id":"a"}\n')
    assert text.endswith(b"\n")
    assert (b'{"id":"a"}\n' + torn).startswith(text)
    assert b"\n" not in (b'{"id":"a"}\n' + torn)[len(text) :]


def test_a_file_that_holds_nothing_but_a_torn_line_is_emptied(path: Path):
    path.write_bytes(b"{" * 200_000)
    LineFile.open(path).close()
    assert path.read_bytes() == b""


async def test_lines_go_on_behind_what_was_recovered(path: Path):
    sink = sink_behind(path, b'{"id":"a"}\n{"id":"b","li')
    await sink.write([{"id": "b"}])
    await sink.close()
    assert records(path) == [{"id": "a"}, {"id": "b"}]


async def test_lines_that_are_no_json_do_not_stop_the_start(path: Path):
    sink = sink_behind(path, b"what is this\n\xff\n{\n")
    await sink.write([{"id": "a"}])
    await sink.close()
    lines = LineFile.open(path)
    assert lines.tail(1000) == [b"what is this", b"\xff", b"{", b'{"id":"a"}']
    lines.close()


async def test_a_full_disk_fails_the_job_and_leaves_no_half_line(
    sink: NdjsonSink, path: Path, disk: Disk
):
    await sink.write([{"id": "a"}])
    disk.room = 5
    with pytest.raises(OSError, match="No space"):
        await sink.write([{"id": "b"}])
    assert records(path) == [{"id": "a"}]
    disk.room = None
    await sink.write([{"id": "b"}])
    assert records(path) == [{"id": "a"}, {"id": "b"}]


async def test_an_fsync_that_fails_is_no_success(sink: NdjsonSink, path: Path, disk: Disk):
    disk.fsync_error = OSError(errno.EIO, "Input/output error")
    with pytest.raises(OSError, match="Input/output"):
        await sink.write([{"id": "a"}])
    await sink.write([{"id": "a"}])
    assert records(path) == [{"id": "a"}]


async def test_a_cut_that_failed_is_made_up_for(
    sink: NdjsonSink, path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
):
    real = os.ftruncate

    def fails(descriptor: int, size: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    disk.room = 5
    monkeypatch.setattr(os, "ftruncate", fails)
    with pytest.raises(OSError, match="Input/output"):
        await sink.write([{"id": "a-longer-one"}])
    monkeypatch.setattr(os, "ftruncate", real)
    disk.room = None
    await sink.write([{"id": "b"}])
    assert records(path) == [{"id": "b"}]


async def test_a_failure_is_told_to_every_job_of_the_batch(
    sink: NdjsonSink, path: Path, disk: Disk
):
    disk.room = 0
    results = await asyncio.gather(
        *(sink.write([{"id": str(number)}]) for number in range(5)), return_exceptions=True
    )
    assert all(isinstance(result, OSError) for result in results)
    assert records(path) == []


async def test_a_job_that_was_cancelled_holds_up_no_other(sink: NdjsonSink, path: Path):
    first = asyncio.create_task(sink.write([{"id": "a"}]))
    second = asyncio.create_task(sink.write([{"id": "b"}]))
    await asyncio.sleep(0)
    first.cancel()
    await second
    with pytest.raises(asyncio.CancelledError):
        await first
    await sink.write([{"id": "a"}])
    assert sorted(record["id"] for record in records(path)) == ["a", "b"]


async def test_what_is_waiting_is_written_before_the_sink_closes(path: Path):
    sink = NdjsonSink.open(path)
    write = asyncio.create_task(sink.write([{"id": "a"}]))
    await asyncio.sleep(0)
    await sink.close()
    await write
    assert records(path) == [{"id": "a"}]


async def test_a_sink_that_is_closed_takes_no_record(path: Path):
    sink = NdjsonSink.open(path)
    await sink.close()
    with pytest.raises(RuntimeError):
        await sink.write([{"id": "a"}])


# One file for each process


async def test_a_second_sink_takes_the_next_name(sink: NdjsonSink, path: Path):
    second, third = NdjsonSink.open(path), NdjsonSink.open(path)
    assert [one.path.name for one in (sink, second, third)] == [
        "pages.ndjson",
        "pages-2.ndjson",
        "pages-3.ndjson",
    ]
    await second.close()
    again = NdjsonSink.open(path)
    assert again.path.name == "pages-2.ndjson"
    await again.close()
    await third.close()


def test_there_is_an_end_to_names(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ndjson, "MOST_FILES", 1)
    holder = LineFile.open(path)
    with pytest.raises(ConfigError, match="SINK_NDJSON"):
        LineFile.open(path)
    holder.close()


@pytest.mark.parametrize("name", ["missing/pages.ndjson", "."])
def test_a_place_that_cannot_be_written_is_a_configuration_error(tmp_path: Path, name: str):
    with pytest.raises(ConfigError, match="SINK_NDJSON") as refused:
        LineFile.open(tmp_path / name)
    assert "\n" not in str(refused.value)
