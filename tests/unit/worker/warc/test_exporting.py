"""Archives as tables: what readers find in them, and that they are whole or not there."""

import fcntl
import os
from datetime import datetime
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

import manyhands.worker.warc.exporting
from manyhands.worker.net.fetcher import TemporaryFetchError
from manyhands.worker.warc.exporting import Exported, export_archive, file_name
from manyhands.worker.warc.frames import NotAnArchive
from manyhands.worker.warc.outputs import LocalOutput
from manyhands.worker.warc.streams import Aborted
from tests.support.archives import (
    DATE,
    Archive,
    MemoryStream,
    http_answer,
    page,
    request_record,
    sha1,
    warc_record,
)

NAME = "a.parquet"
MOMENT = datetime.fromisoformat(DATE)


def export(data: bytes, directory: Path) -> Exported:
    return export_archive(MemoryStream(data), LocalOutput(directory, NAME), lambda _: None)


def left_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_row_tells_all_of_a_record(tmp_path: Path) -> None:
    answer = http_answer(page(1), 200, "text/html; charset=utf-8")
    archive = Archive.of(
        [
            request_record(1),
            warc_record(
                answer,
                number=1,
                WARC_Target_URI="http://example.com/ä".encode(),
                WARC_IP_Address="192.0.2.1",
                WARC_Payload_Digest=sha1(page(1)),
            ),
        ]
    )

    exported = export(archive.data, tmp_path)

    assert (exported.rows, exported.damages) == (1, [])
    (row,) = pq.read_table(tmp_path / NAME).to_pylist()
    assert row == {
        "url": "http://example.com/%C3%A4",
        "date": MOMENT,
        "status": 200,
        "content_type": "text/html; charset=utf-8",
        "digest": sha1(page(1)),
        "payload_length": len(page(1)),
        "ip": "192.0.2.1",
        "headers": answer[: -len(page(1))],
        "body": page(1),
        "is_truncated": False,
        "warc_offset": archive.offsets[1],
    }
    assert left_in(tmp_path) == [NAME]


def test_what_a_record_does_not_say_is_null(tmp_path: Path) -> None:
    text = warc_record(
        b"text", kind="conversion", content_type="", WARC_Date="soon", WARC_Block_Digest=""
    )
    export(Archive.of([text]).data, tmp_path)
    (row,) = pq.read_table(tmp_path / NAME).to_pylist()
    null = ("date", "status", "content_type", "digest", "ip")
    assert [row[name] for name in null] == [None] * len(null)
    assert (row["headers"], row["body"]) == (b"", b"text")


def test_duckdb_reads_what_was_written(tmp_path: Path) -> None:
    archive = Archive.of_pages(300, size=3000)
    export(archive.data, tmp_path)
    found = (
        duckdb.connect()
        .execute(
            f"select count(*), count(distinct url), sum(octet_length(body)), max(warc_offset), "
            f"epoch(min(date))::bigint from '{tmp_path / NAME}' where status = 200"
        )
        .fetchone()
    )
    sizes = sum(len(page(number, 3000)) for number in range(300))
    assert found == (300, 300, sizes, archive.offsets[-2], MOMENT.timestamp())


def test_row_groups_are_bounded_in_bytes_and_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manyhands.worker.warc.exporting, "BATCH_BYTES", 10_000)
    archive = Archive.of_pages(100, size=3000)
    for name, limit in (("GROUP_BYTES", 50_000), ("GROUP_ROWS", 15)):
        with monkeypatch.context() as patch:
            patch.setattr(manyhands.worker.warc.exporting, name, limit)
            export(archive.data, tmp_path)
        file = pq.ParquetFile(tmp_path / NAME)
        groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
        assert len(groups) > 5
        assert sum(group.num_rows for group in groups) == 100
        assert all(group.num_rows <= 15 or name != "GROUP_ROWS" for group in groups)
        assert max(group.total_byte_size for group in groups) < 60_000
        assert file.read(["url"])["url"].to_pylist() == [
            f"http://example.com/{number}" for number in range(100)
        ]
        file.close()


def test_columns_are_packed_by_zstd(tmp_path: Path) -> None:
    export(Archive.of_pages(10).data, tmp_path)
    with pq.ParquetFile(tmp_path / NAME) as file:
        group = file.metadata.row_group(0)
        packed = {group.column(number).compression for number in range(group.num_columns)}
    assert packed == {"ZSTD"}


def test_a_damaged_archive_is_exported_without_what_is_damaged(tmp_path: Path) -> None:
    archive = Archive.of_pages(10)
    data = bytearray(archive.data)
    data[archive.offsets[4] + 50] ^= 4
    exported = export(bytes(data), tmp_path)
    assert exported.rows == 9
    assert [damage.offset for damage in exported.damages] == [archive.offsets[4]]
    assert pq.read_table(tmp_path / NAME).num_rows == 9


def test_an_archive_without_records_is_a_table_without_rows(tmp_path: Path) -> None:
    export(Archive.of([request_record(1)]).data, tmp_path)
    assert pq.read_table(tmp_path / NAME).num_rows == 0


def test_a_repeat_writes_over_the_first(tmp_path: Path) -> None:
    for count in (5, 3):
        export(Archive.of_pages(count).data, tmp_path)
    assert pq.read_table(tmp_path / NAME).num_rows == 3
    assert left_in(tmp_path) == [NAME]


class LostStream(MemoryStream):
    def read(self) -> bytes:
        if self.at > 5_000:
            raise TemporaryFetchError("lost")
        return super().read()


@pytest.mark.parametrize("error", [TemporaryFetchError, NotAnArchive, Aborted])
def test_what_is_not_whole_is_not_there(tmp_path: Path, error: type[Exception]) -> None:
    stream: MemoryStream = MemoryStream(Archive.of_pages(50).data)
    if error is TemporaryFetchError:
        stream = LostStream(stream.data)
    elif error is NotAnArchive:
        stream.data = b"<html>"
    else:
        stream.abort()
    with pytest.raises(error):
        export_archive(stream, LocalOutput(tmp_path, NAME), lambda _: None)
    assert left_in(tmp_path) == []


def test_a_part_that_a_killed_process_left_is_written_over(tmp_path: Path) -> None:
    (tmp_path / f".{NAME}.part").write_bytes(b"half" * 1000)
    export(Archive.of_pages(2).data, tmp_path)
    assert left_in(tmp_path) == [NAME]
    assert pq.read_table(tmp_path / NAME).num_rows == 2


def test_two_jobs_do_not_write_the_same_file_at_once(tmp_path: Path) -> None:
    first = LocalOutput(tmp_path, NAME)
    first.write(b"first")
    with pytest.raises(TemporaryFetchError, match="written by another job"):
        LocalOutput(tmp_path, NAME)
    first.commit()
    second = LocalOutput(tmp_path, NAME)
    second.write(b"second")
    assert (tmp_path / NAME).read_bytes() == b"first"
    second.abandon()
    assert (tmp_path / NAME).read_bytes() == b"first"
    assert left_in(tmp_path) == [NAME]


def test_a_file_that_got_its_name_meanwhile_is_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the opening of the part and its lock another job finishes."""
    first = LocalOutput(tmp_path, NAME)
    first.write(b"first")
    flock = fcntl.flock

    def finish_first(file: object, how: int) -> None:
        if not first.closed:
            first.commit()
        flock(file, how)  # type: ignore[arg-type]

    monkeypatch.setattr(fcntl, "flock", finish_first)
    second = LocalOutput(tmp_path, NAME)
    second.write(b"second")
    assert (tmp_path / NAME).read_bytes() == b"first"
    second.commit()
    assert (tmp_path / NAME).read_bytes() == b"second"


def test_a_full_disk_is_told_and_may_get_better() -> None:
    output = LocalOutput.__new__(LocalOutput)
    output._path = Path("/dev/full")
    output._file = os.fdopen(os.open("/dev/full", os.O_WRONLY), "wb", buffering=0)
    with pytest.raises(TemporaryFetchError, match="No space left"):
        output.write(b"x")
    output._file.close()


def test_the_name_follows_from_the_source() -> None:
    name = file_name("https://data.example.com/a/b/CC-MAIN-1.warc.gz")
    assert name == file_name("https://data.example.com/a/b/CC-MAIN-1.warc.gz")
    assert name.startswith("CC-MAIN-1-") and name.endswith(".parquet")
    assert name != file_name("https://data.example.com/a/c/CC-MAIN-1.warc.gz")
    for odd in ("/", "..", "s3://b/" + "x" * 500, "ä/ö ü.wet.zst"):
        made = file_name(odd)
        assert len(made) < 200 and "/" not in made and made.strip(".") == made
