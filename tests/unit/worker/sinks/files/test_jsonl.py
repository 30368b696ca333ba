"""Records as lines of files: whole, once, and one file for each process."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.shared.errors import ConfigError
from manyhands.shared.sinks.manifest_tables import lines_manifest
from manyhands.worker.records import PlainRecord
from manyhands.worker.sinks.files import line_files
from manyhands.worker.sinks.files.jsonl import JsonlFormat, JsonlSink
from manyhands.worker.sinks.files.line_files import LineFiles, LineKeeper
from manyhands.worker.sinks.files.manifest import Manifest
from manyhands.worker.sinks.protocol import RecordsRefused
from tests.support.file_sinks import jsonl_lines
from tests.support.sink_records import hostile_pages, page, plain


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "pages.ndjson"


@pytest.fixture
async def sink(path: Path) -> AsyncIterator[JsonlSink]:
    sink = JsonlSink(f"jsonl:{path}")
    await sink.open()
    yield sink
    await sink.close()


async def opened(path: Path) -> JsonlSink:
    sink = JsonlSink(f"jsonl:{path}")
    await sink.open()
    return sink


def leave(path: Path, content: bytes | None) -> None:
    """As somebody else would; None removes the file."""
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)


def names_in(directory: Path, pattern: str) -> list[str]:
    return sorted(path.name for path in directory.glob(pattern))


def lines(path: Path) -> list[Any]:
    text = path.read_bytes()
    assert text == b"" or text.endswith(b"\n")
    return list(map(json.loads, text.splitlines()))


async def test_a_page_is_a_line_with_its_fields(sink: JsonlSink, path: Path):
    await sink.write([page(1)])
    (line,) = lines(path)
    assert list(line)[:3] == ["id", "url", "final_url"]
    assert line["links"] == page(1).links
    assert line["title"] == page(1).title


async def test_what_a_handler_emits_is_a_line_as_it_is(sink: JsonlSink, path: Path):
    bodies = [{"id": "x", "title": "ä\n\u2028"}, ["no", "object"], "text", 7, None]
    await sink.write([PlainRecord(str(n), body) for n, body in enumerate(bodies)])
    assert lines(path) == bodies


async def test_an_id_is_written_once(sink: JsonlSink, path: Path):
    await sink.write([plain(1), plain(2)])
    await sink.write([plain(2), plain(3)])
    assert lines(path) == [{"number": 1}, {"number": 2}, {"number": 3}]


async def test_an_id_is_known_again_after_a_restart(path: Path):
    for numbers in ((1, 2), (2, 3)):
        sink = await opened(path)
        await sink.write([plain(number) for number in numbers])
        await sink.close()
    assert lines(path) == [{"number": 1}, {"number": 2}, {"number": 3}]


async def test_hostile_text_is_written_as_well_as_it_can_be(sink: JsonlSink, path: Path):
    await sink.write(hostile_pages())
    assert [line["id"] for line in lines(path)] == [record.id for record in hostile_pages()]


async def test_what_is_no_json_is_refused_by_its_place(sink: JsonlSink, path: Path):
    bad = PlainRecord("bad", {"number": 2**70})
    with pytest.raises(RecordsRefused) as raised:
        await sink.write([plain(1), bad, plain(2)])
    assert list(raised.value.reasons) == [1]
    await sink.write([plain(1), plain(2)])
    assert lines(path) == [{"number": 1}, {"number": 2}]


async def test_a_file_that_is_called_so_is_compressed(tmp_path: Path):
    path = tmp_path / "pages.ndjson.zst"
    first, second = await opened(path), await opened(path)
    for number in range(3):
        await first.write([plain(number)])
    await second.write([plain(2), plain(3)])
    await first.close()
    await second.close()
    assert jsonl_lines(tmp_path) == [{"number": 3}, {"number": 0}, {"number": 1}, {"number": 2}]
    assert names_in(tmp_path, "*.zst") == ["pages-2.ndjson.zst", "pages.ndjson.zst"]


# Several processes


async def test_each_process_has_a_file_of_its_own(path: Path):
    first, second = await opened(path), await opened(path)
    await first.write([plain(1)])
    await second.write([plain(1), plain(2)])
    await first.close()
    third = await opened(path)
    await third.write([plain(2), plain(3)])
    await second.close()
    await third.close()
    assert lines(path) == [{"number": 1}, {"number": 3}]
    assert lines(path.with_name("pages-2.ndjson")) == [{"number": 2}]


def test_there_is_an_end_to_the_files(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(line_files, "MOST_FILES", 2)
    manifest = Manifest.open(lines_manifest(path))
    own = [LineFiles(manifest, path).adopt() for _ in range(2)]
    with pytest.raises(ConfigError, match="2 processes write beside"):
        LineFiles(manifest, path).adopt()
    for one in own:
        one.file.close()
    manifest.close()


@pytest.mark.parametrize("torn", [b'{"number": 9', b'{"number": 9}\n', b'{"number": 9}\n{"num'])
async def test_lines_that_were_not_committed_are_cut_off_whoever_wrote_them(
    path: Path, torn: bytes
):
    """Also of a process that has no successor: its jobs are done again by others."""
    first, second = await opened(path), await opened(path)
    await first.write([plain(1)])
    await second.write([plain(2)])
    await first.close()
    await second.close()
    for file in (path, path.with_name("pages-2.ndjson")):
        with file.open("ab") as stream:
            stream.write(torn)
    keeper = LineKeeper(Manifest.open(lines_manifest(path)), path.parent)
    only = await opened(path)
    keeper.sweep(0.0)
    await only.write([plain(9)])
    keeper.sweep(0.0)
    keeper.close()
    await only.close()
    assert lines(path) == [{"number": 1}, {"number": 9}]
    assert lines(path.with_name("pages-2.ndjson")) == [{"number": 2}]


def test_the_lines_of_a_process_that_lives_are_left_alone(path: Path):
    manifest = Manifest.open(lines_manifest(path))
    own = LineFiles(manifest, path).adopt()
    own.file.put(b"{}\n", 0)
    keeper = LineKeeper(Manifest.open(lines_manifest(path)), path.parent)
    keeper.sweep(0.0)
    assert path.read_bytes() == b"{}\n"
    own.file.close()
    keeper.sweep(0.0)
    assert path.read_bytes() == b""
    keeper.close()
    manifest.close()


# Files from before, and files that somebody else changed


@given(st.binary(max_size=60))
def test_a_file_without_manifest_is_taken_over_at_its_last_whole_line(tmp_path_factory, torn):
    path = tmp_path_factory.mktemp("torn") / "pages.ndjson"
    path.write_bytes(b'{"id":"a"}\n' + torn)
    manifest = Manifest.open(lines_manifest(path))
    own = LineFiles(manifest, path).adopt()
    own.file.close()
    manifest.close()
    text = path.read_bytes()
    assert text.endswith(b"\n")
    assert (b'{"id":"a"}\n' + torn).startswith(text)
    assert b"\n" not in (b'{"id":"a"}\n' + torn)[len(text) :]


async def test_a_file_without_a_whole_line_is_emptied(path: Path):
    leave(path, b"{" * 200_000)
    sink = await opened(path)
    await sink.write([plain(1)])
    await sink.close()
    assert lines(path) == [{"number": 1}]


@pytest.mark.parametrize("left", [None, b'{"number":1}\n{"nu'])
async def test_a_file_that_was_removed_or_cut_begins_again(path: Path, left: bytes | None):
    sink = await opened(path)
    await sink.write([plain(1), plain(2)])
    await sink.close()
    leave(path, left)
    sink = await opened(path)
    await sink.write([plain(2), plain(3)])
    await sink.close()
    assert lines(path) == [*([{"number": 1}] if left else []), {"number": 3}]


async def test_a_compressed_file_that_its_manifest_does_not_know_is_left_alone(tmp_path: Path):
    path = tmp_path / "pages.ndjson.zst"
    path.write_bytes(JsonlFormat(is_packed=True).encode([plain(1)]))
    with pytest.raises(ConfigError, match="not as its manifest says"):
        await opened(path)
    assert jsonl_lines(tmp_path) == [{"number": 1}]


async def test_a_directory_is_no_file(tmp_path: Path):
    with pytest.raises(ConfigError, match="must be a file"):
        JsonlSink(f"jsonl:{tmp_path}")


async def test_a_place_that_cannot_be_written_is_a_wrong_setting(tmp_path: Path):
    (tmp_path / "file").write_text("")
    sink = JsonlSink(f"jsonl:{tmp_path}/file/pages.ndjson")
    with pytest.raises(ConfigError, match="SINKS"):
        await sink.open()
    await sink.close()
