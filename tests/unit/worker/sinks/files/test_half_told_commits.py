"""A process that is killed in a commit may have written all of it to SQLite's log and told nobody.
When all others have died, too, it holds: so nothing of it may have been cut off until then."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from manyhands.shared.sinks.manifest_tables import lines_manifest
from manyhands.worker.sinks.files.batches import NEVER, BatchWriter
from manyhands.worker.sinks.files.jsonl import JsonlFormat
from manyhands.worker.sinks.files.line_files import LineFiles, LineKeeper
from manyhands.worker.sinks.files.manifest import Manifest, digest
from tests.support.sink_records import plain
from tests.unit.worker.sinks.files.spooled import NOW, Place

LATER = NOW + 900


class HalfTold:
    """A place whose last commit is in the log, and in no index of it."""

    def __init__(self, manifest: Path) -> None:
        self.directory = manifest.parent
        self._manifest = manifest
        self._index = manifest.with_name(manifest.name + "-shm")
        # Others live, and see what the index says.
        self.other = Manifest.open(manifest)

    def kill_in_commit(self, write: Callable[[], object]) -> None:
        before = self._index.read_bytes()
        write()
        # Not a new file: it is mapped into memory.
        with self._index.open("r+b") as index:
            index.write(before)

    def after_all_died(self, directory: Path) -> tuple[Manifest, Path]:
        """The manifest as it is then, and where the files are."""
        shutil.copytree(self.directory, directory, ignore=shutil.ignore_patterns("*-shm"))
        return Manifest.open(directory / self._manifest.name), directory


@pytest.fixture
def lines(tmp_path: Path) -> Iterator[HalfTold]:
    """A line of two was told."""
    path = tmp_path / "place" / "pages.ndjson"
    place = HalfTold(lines_manifest(path))
    writer = BatchWriter(LineFiles(Manifest.open(lines_manifest(path)), path), FORMAT, NEVER)
    writer.open()
    writer.write([plain(1)], NOW)
    place.kill_in_commit(lambda: writer.write([plain(2)], NOW))
    writer.close()
    yield place
    place.other.close()


FORMAT = JsonlFormat(is_packed=False)


def assert_nothing_is_missing(place: HalfTold, directory: Path, open_suffix: str) -> None:
    manifest, files = place.after_all_died(directory)
    for segment in manifest.unfinished():
        assert (files / (segment.name + open_suffix)).stat().st_size >= segment.size
    manifest.close()


def is_told(manifest: Manifest, number: int) -> bool:
    return bool(manifest.known([digest(plain(number).id)]))


def test_such_a_commit_is_not_seen_until_all_have_died(lines: HalfTold, tmp_path: Path):
    """Else the tests below would show nothing."""
    assert is_told(lines.other, 1)
    assert not is_told(lines.other, 2)
    manifest, _ = lines.after_all_died(tmp_path / "then")
    assert is_told(manifest, 2)
    manifest.close()


def test_lines_are_not_cut_off_before_they_can_come_back_no_more(lines: HalfTold, tmp_path: Path):
    keeper = LineKeeper(lines.other, lines.directory)
    keeper.sweep(NOW)
    assert (lines.directory / "pages.ndjson").read_bytes() == b'{"number":1}\n'
    assert_nothing_is_missing(lines, tmp_path / "then", "")


def test_a_file_is_not_taken_over_before_its_lines_can_come_back_no_more(
    lines: HalfTold, tmp_path: Path
):
    LineFiles(lines.other, lines.directory / "pages.ndjson").adopt().file.close()
    assert (lines.directory / "pages.ndjson").read_bytes() == b'{"number":1}\n'
    assert_nothing_is_missing(lines, tmp_path / "then", "")


@pytest.fixture
def spooled(tmp_path: Path) -> Iterator[tuple[HalfTold, Place]]:
    place = Place(tmp_path / "place")
    half_told = HalfTold(place.directory / "manifest")
    writer = place.writer()
    writer.write([plain(1)], NOW)
    half_told.kill_in_commit(lambda: writer.write([plain(2)], NOW))
    place.kill(writer)
    assert not is_told(half_told.other, 2)
    yield half_told, place
    half_told.other.close()
    place.close()


def test_a_segment_is_not_taken_over_before_its_end_can_come_back_no_more(
    spooled: tuple[HalfTold, Place], tmp_path: Path
):
    half_told, place = spooled
    place.writer()
    assert place.open_files == ["begin job.1 "]
    assert_nothing_is_missing(half_told, tmp_path / "then", ".open")


def test_a_segment_is_not_published_before_its_end_can_come_back_no_more(
    spooled: tuple[HalfTold, Place], tmp_path: Path
):
    half_told, place = spooled
    place.publishing().sweep(LATER)
    assert place.published == ["begin job.1 "]
    manifest, _ = half_told.after_all_died(tmp_path / "then")
    assert not is_told(manifest, 2)
    assert manifest.unfinished() == []
    manifest.close()
