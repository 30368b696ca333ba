"""Segments that are complete → what readers see; whatever was half done is done again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from manyhands.shared.sinks.manifest_tables import SegmentState
from manyhands.worker.sinks.files.batches import SealedAt
from manyhands.worker.sinks.files.publishing import Directory, as_it_is
from manyhands.worker.sinks.files.segment_file import SegmentFile
from tests.unit.worker.sinks.files.spooled import NOW, Place, records

LATER = NOW + 900


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Each batch is a segment."""
    place = Place(tmp_path, SealedAt(size=1, age_s=900))
    yield place
    place.close()


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Place]:
    """Segments are open until they are old."""
    place = Place(tmp_path)
    yield place
    place.close()


class Down(Exception):
    """Of a store that takes nothing."""


class Bucket:
    """A store that copies, as a bucket does. State: what it has, and what it does not take."""

    def __init__(self) -> None:
        self.objects: dict[str, str] = {}
        self.refuses: set[str] = set()
        self.attempts: list[str] = []

    def put(self, path: Path, name: str) -> None:
        text = path.read_text()
        self.attempts.append(text)
        if text in self.refuses:
            raise Down(text)
        self.objects[name] = text

    def has_taken(self, name: str) -> bool:
        del name
        return False


def test_a_segment_that_is_complete_gets_its_name(place: Place):
    place.writer().write(records("a"), NOW)
    place.publishing().sweep(NOW)
    (path,) = place.directory.glob("*.txt")
    assert path.name.startswith("manyhands-20270115T080000Z-")
    assert (place.published, place.open_files, place.segments) == (["begin a "], [], [])


def test_an_upload_is_removed_from_the_spool(place: Place):
    bucket = Bucket()
    place.writer().write(records("a"), NOW)
    place.publishing(bucket).sweep(NOW)
    assert list(bucket.objects.values()) == ["begin a "]
    assert (place.open_files, place.segments) == ([], [])


def test_a_segment_that_is_written_is_left_alone(slow: Place):
    slow.writer().write(records("a"), NOW)
    slow.publishing().sweep(LATER, is_last=True)
    assert (slow.published, slow.open_files) == ([], ["begin a "])


def test_the_segment_of_a_process_that_died_is_published_when_it_is_old(slow: Place):
    writer = slow.writer()
    writer.write(records("a"), NOW)
    slow.kill(writer)
    slow.publishing().sweep(LATER - 1)
    assert slow.published == []
    slow.publishing().sweep(LATER)
    assert slow.published == ["begin a "]


def test_the_last_sweep_publishes_whatever_nobody_has(slow: Place):
    writer = slow.writer()
    writer.write(records("a"), NOW)
    slow.kill(writer)
    slow.publishing().sweep(NOW, is_last=True)
    assert slow.published == ["begin a "]


def test_a_segment_of_another_format_is_published_at_once(slow: Place):
    writer = slow.writer()
    writer.write(records("a"), NOW)
    slow.kill(writer)
    slow.suffix = ".other"
    slow.publishing().sweep(NOW)
    slow.suffix = ".txt"
    assert slow.published == ["begin a "]


def test_what_was_not_committed_is_not_published(slow: Place):
    writer = slow.writer()
    writer.write(records("a"), NOW)
    slow.kill(writer)
    (path,) = slow.directory.glob("*.open")
    path.write_text("begin a b and a half")
    slow.publishing().sweep(LATER)
    assert slow.published == ["begin a "]


def test_a_segment_with_nothing_in_it_is_forgotten(slow: Place):
    spool = slow.spool()
    spool.create(NOW).file.close()
    spool.manifest.close()
    slow.publishing().sweep(LATER)
    assert (slow.published, slow.open_files, slow.segments) == ([], [], [])


def test_a_segment_that_another_process_publishes_is_left_to_it(place: Place):
    place.writer().write(records("a"), NOW)
    (path,) = place.directory.glob("*.open")
    with SegmentFile.take(path) or pytest.fail("somebody has it"):
        place.publishing().sweep(NOW)
        assert place.published == []
    place.publishing().sweep(NOW)
    assert place.published == ["begin a "]


def test_a_segment_that_was_published_since_it_was_listed_is_not_published_again(place: Place):
    place.writer().write(records("a"), NOW)
    (listed,) = place.segments
    place.publishing().sweep(NOW)
    late = place.publishing()
    late._publish(listed)
    found = place.manifest.segment(listed.name)
    assert found is not None
    assert found.state is SegmentState.PUBLISHED


# Killed between two steps


def test_one_that_was_renamed_and_not_entered_is_entered(place: Place):
    place.writer().write(records("a"), NOW)
    (path,) = place.directory.glob("*.open")
    path.rename(path.with_suffix(""))
    place.publishing().sweep(NOW)
    assert place.published == ["begin a "]
    assert place.segments == []
    found = place.manifest.segment(path.name.removesuffix(".open"))
    assert found is not None
    assert found.state is SegmentState.PUBLISHED


def test_one_that_was_uploaded_and_not_entered_is_uploaded_to_the_same_name(place: Place):
    bucket = Bucket()
    place.writer().write(records("a"), NOW)
    (path,) = place.directory.glob("*.open")
    bucket.put(path, path.name.removesuffix(".open"))
    place.publishing(bucket).sweep(NOW)
    assert list(bucket.objects.values()) == ["begin a "]


def test_one_that_was_entered_and_not_removed_is_removed_at_the_next_start(place: Place):
    place.writer().write(records("a"), NOW)
    (segment,) = place.segments
    place.manifest.set_state(segment.name, SegmentState.PUBLISHED)
    place.writer()
    assert place.open_files == []


class Killed(BaseException):
    """Of a process, where it happens."""


def die(*_: object, **__: object) -> None:
    raise Killed


def test_a_file_is_removed_only_after_the_manifest_says_that_it_is_published(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    bucket = Bucket()
    place.writer().write(records("a"), NOW)
    (segment,) = place.segments
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Path, "unlink", die)
        place.publishing(bucket).sweep(NOW)
    found = place.manifest.segment(segment.name)
    assert found is not None
    assert found.state is SegmentState.PUBLISHED
    place.writer()
    assert place.open_files == []


def test_an_empty_file_is_removed_only_after_it_is_forgotten(
    slow: Place, monkeypatch: pytest.MonkeyPatch
):
    spool = slow.spool()
    spool.create(NOW).file.close()
    spool.manifest.close()
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Path, "unlink", die)
        slow.publishing().sweep(LATER)
    assert slow.segments == []
    slow.writer()
    assert slow.open_files == []


def test_one_of_several_files_of_a_segment_that_fails_makes_all_of_them_again(place: Place):
    def in_two(path: Path, name: str) -> Iterator[tuple[Path, str]]:
        for part in ("pages", "edges"):
            made = path.with_suffix(".part")
            made.write_text(part)
            yield made, f"{part}/{name}"

    bucket = Bucket()
    bucket.refuses = {"edges"}
    place.writer().write(records("a"), NOW)
    with pytest.raises(Down):
        place.publishing(bucket, in_two).sweep(NOW)
    assert place.open_files == ["begin a "]
    bucket.refuses.clear()
    place.publishing(bucket, in_two).sweep(NOW)
    assert sorted(bucket.objects.values()) == ["edges", "pages"]
    assert bucket.attempts == ["pages", "edges", "pages", "edges"]


def test_a_sealed_segment_whose_file_is_gone_is_lost(place: Place):
    place.writer().write(records("a"), NOW)
    (path,) = place.directory.glob("*.open")
    path.unlink()
    place.publishing().sweep(NOW)
    found = place.manifest.segment(path.name.removesuffix(".open"))
    assert found is not None
    assert found.state is SegmentState.LOST


def test_a_sealed_segment_that_was_cut_is_lost_and_not_published(place: Place):
    place.writer().write(records("a"), NOW)
    (path,) = place.directory.glob("*.open")
    path.write_text("beg")
    place.publishing().sweep(NOW)
    assert (place.published, place.open_files, place.segments) == ([], ["beg"], [])


# A store that is down


def test_a_store_that_is_down_keeps_segments_in_the_spool(place: Place):
    bucket = Bucket()
    bucket.refuses = {"begin a "}
    place.writer().write(records("a"), NOW)
    publishing = place.publishing(bucket)
    for _ in range(3):
        with pytest.raises(Down):
            publishing.sweep(NOW)
    bucket.refuses.clear()
    publishing.sweep(NOW)
    assert list(bucket.objects.values()) == ["begin a "]


def test_one_that_can_never_be_published_does_not_hold_up_the_others(place: Place):
    bucket = Bucket()
    bucket.refuses = {"begin b "}
    writer = place.writer()
    for number, name in enumerate("abc"):
        writer.write(records(name), NOW + number)
    publishing = place.publishing(bucket)
    for _ in range(2):
        with pytest.raises(Down):
            publishing.sweep(NOW)
    assert sorted(bucket.objects.values()) == ["begin a ", "begin c "]
    assert place.open_files == ["begin b "]


def test_a_directory_puts_files_into_directories_of_its_own(tmp_path: Path):
    made = tmp_path / "made"
    made.write_text("text")
    store = Directory(tmp_path / "out")
    assert not store.has_taken("a/b/name")
    store.put(made, "a/b/name")
    assert (tmp_path / "out" / "a" / "b" / "name").read_text() == "text"
    assert store.has_taken("a/b/name")
    assert not made.exists()


def test_a_file_as_it_is_has_its_own_name(tmp_path: Path):
    assert list(as_it_is(tmp_path / "x.open", "x")) == [(tmp_path / "x.open", "x")]
