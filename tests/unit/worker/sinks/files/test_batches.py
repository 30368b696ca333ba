"""One batch → the end of a segment: once, and whole or not at all."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from manyhands.shared.crawl.store.errors import StateError
from manyhands.shared.crawl.store.sqlite.database import Database
from manyhands.shared.sinks.manifest_tables import SegmentState
from manyhands.worker.records import PlainRecord
from manyhands.worker.sinks.files import batches
from manyhands.worker.sinks.files.batches import SealedAt, SpoolFull
from manyhands.worker.sinks.files.manifest import digest
from manyhands.worker.sinks.files.segment_file import SegmentFile
from manyhands.worker.sinks.protocol import RecordsRefused
from tests.unit.worker.sinks.files.spooled import NOW, Place, records


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.close()


def test_records_are_in_a_segment_that_counts(place: Place):
    assert place.writer().write(records("a", "b"), NOW) is False
    assert place.open_files == ["begin a b "]
    (segment,) = place.segments
    assert (segment.size, segment.records, segment.state) == (10, 2, SegmentState.OPEN)
    assert segment.created_at == NOW


def test_nothing_is_made_before_there_is_something_to_write(place: Place):
    writer = place.writer()
    writer.write([], NOW)
    assert place.segments == []
    assert place.open_files == []


def test_the_next_batch_follows_behind_the_last(place: Place):
    writer = place.writer()
    for name in "abc":
        writer.write(records(name), NOW)
    assert place.open_files == ["begin a b c "]


def test_an_id_is_written_once_in_a_batch_and_ever_after(place: Place):
    writer = place.writer()
    writer.write(records("a", "b", "a"), NOW)
    writer.write(records("b", "c", "a"), NOW)
    assert place.open_files == ["begin a b c "]
    assert place.format.encoded == ["a", "b", "c"]


def test_an_id_that_another_process_has_written_is_not_written_again(place: Place):
    place.writer().write(records("a", "b"), NOW)
    place.writer().write(records("b", "c"), NOW)
    assert place.open_files == ["begin a b ", "begin c "]


def test_a_batch_of_which_all_is_known_makes_no_segment(place: Place):
    place.writer().write(records("a"), NOW)
    place.writer().write(records("a"), NOW)
    assert place.open_files == ["begin a "]


def overtaken(place: Place, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    faster = place.writer()
    slower = place.writer()
    slower.write(records("first"), NOW)
    put = SegmentFile.put

    def put_late(file: SegmentFile, data: bytes, offset: int) -> None:
        put(file, data, offset)
        monkeypatch.setattr(SegmentFile, "put", put)
        faster.write(records("b"), NOW)

    monkeypatch.setattr(SegmentFile, "put", put_late)
    slower.write(records(*names), NOW)
    slower.write(records("last"), NOW)


def test_of_two_processes_with_the_same_record_the_second_leaves_it_out(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    overtaken(place, monkeypatch, "a", "b", "c")
    assert place.open_files == ["begin b ", "begin first a c last "]
    assert sum(segment.records for segment in place.segments) == 5


def test_one_that_was_overtaken_with_all_of_its_records_writes_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    overtaken(place, monkeypatch, "b")
    assert place.open_files == ["begin b ", "begin first last "]


# Segments that are complete


@pytest.mark.parametrize(("size", "is_complete"), [(10, True), (11, False)])
def test_a_segment_is_complete_at_its_size(tmp_path: Path, size: int, is_complete: bool):
    place = Place(tmp_path, SealedAt(size, 900))
    writer = place.writer()
    assert writer.write(records("a", "b"), NOW) is is_complete
    writer.write(records("c"), NOW)
    expected = ["begin a b ", "begin c "] if is_complete else ["begin a b c "]
    assert place.open_files == expected
    place.close()


def test_a_segment_is_complete_at_its_age(place: Place):
    writer = place.writer()
    writer.write(records("a"), NOW)
    assert not writer.seal_if_old(NOW + 899)
    assert writer.seal_if_old(NOW + 900)
    assert not writer.seal_if_old(NOW + 901)
    assert [segment.state for segment in place.segments] == [SegmentState.SEALED]
    writer.write(records("b"), NOW + 902)
    assert place.open_files == ["begin a ", "begin b "]


def test_a_segment_that_grows_old_is_complete_with_its_next_batch(place: Place):
    writer = place.writer()
    writer.write(records("a"), NOW)
    assert writer.write(records("b"), NOW + 900)


def test_a_segment_is_complete_when_its_process_stops(place: Place):
    writer = place.writer()
    writer.write(records("a"), NOW)
    writer.finish()
    assert [segment.state for segment in place.segments] == [SegmentState.SEALED]


# Segments of processes that died


def test_a_segment_without_owner_is_taken_over(place: Place):
    first = place.writer()
    first.write(records("a"), NOW)
    place.kill(first)
    place.writer().write(records("b"), NOW + 1)
    assert place.open_files == ["begin a b "]


def test_a_segment_with_an_owner_is_not_taken_over(place: Place):
    place.writer().write(records("a"), NOW)
    place.writer().write(records("b"), NOW)
    assert place.open_files == ["begin a ", "begin b "]


def test_each_takes_over_another_one(place: Place):
    dead = [place.writer() for _ in range(3)]
    for number, writer in enumerate(dead):
        writer.write(records(f"old{number}"), NOW + number)
    for writer in dead:
        place.kill(writer)
    for number in range(4):
        place.writer().write(records(f"new{number}"), NOW + 10)
    taken_over = [f"begin old{number} new{number} " for number in range(3)]
    assert place.open_files == ["begin new3 ", *taken_over]


@pytest.mark.parametrize("torn", ["b", "b c d e ", "begin "])
def test_what_was_not_committed_is_cut_off(place: Place, torn: str):
    writer = place.writer()
    writer.write(records("a"), NOW)
    place.kill(writer)
    (path,) = place.directory.glob("*.open")
    with path.open("a") as file:
        file.write(torn)
    successor = place.writer()
    assert place.open_files == ["begin a "]
    successor.write(records("b"), NOW)
    assert place.open_files == ["begin a b "]


def test_a_segment_of_another_format_is_not_taken_over(place: Place):
    writer = place.writer()
    writer.write(records("a"), NOW)
    place.kill(writer)
    place.suffix = ".other"
    place.writer().write(records("b"), NOW)
    assert place.open_files == ["begin a ", "begin b "]


@pytest.mark.parametrize("is_removed", [True, False])
def test_a_segment_that_somebody_removed_or_cut_is_lost_and_not_taken_over(
    place: Place, is_removed: bool
):
    writer = place.writer()
    writer.write(records("a"), NOW)
    place.kill(writer)
    (path,) = place.directory.glob("*.open")
    if is_removed:
        path.unlink()
    else:
        path.write_text("beg")
    place.writer().write(records("b"), NOW)
    assert place.open_files == (["begin b "] if is_removed else ["beg", "begin b "])
    lost = place.manifest.segment(path.name.removesuffix(".open"))
    assert lost is not None
    assert lost.state is SegmentState.LOST


def test_a_file_that_was_made_and_never_entered_is_removed(place: Place):
    (place.directory / "manyhands-x-1.txt.open").write_text("")
    (place.directory / "manyhands-x-2.txt.open").write_text("of a manifest that was removed")
    place.writer()
    assert place.open_files == ["of a manifest that was removed"]


# Trouble


def test_a_refused_record_is_told_by_its_place_in_the_batch(place: Place):
    writer = place.writer()
    writer.write(records("a"), NOW)
    batch = [*records("a", "b"), PlainRecord("c", "bad"), *records("d"), PlainRecord("e", "bad")]
    with pytest.raises(RecordsRefused) as raised:
        writer.write(batch, NOW)
    assert raised.value.reasons == {2: "c is bad", 4: "e is bad"}
    writer.write([*records("b", "d")], NOW)
    assert place.open_files == ["begin a b d "]


def test_a_full_disk_raises_and_the_batch_can_be_given_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    writer = place.writer()
    writer.write(records("a"), NOW)

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", fail)
        with pytest.raises(OSError, match="No space"):
            writer.write(records("b"), NOW)
    assert place.open_files == ["begin a "]
    writer.write(records("b"), NOW)
    assert place.open_files == ["begin a b "]


@pytest.mark.parametrize("holds", [True, False])
@pytest.mark.parametrize("next_batch", [["b", "c"], ["other"]])
def test_a_commit_that_fails_may_hold_or_not(
    place: Place, monkeypatch: pytest.MonkeyPatch, holds: bool, next_batch: list[str]
):
    writer = place.writer()
    writer.write(records("a"), NOW)
    run = Database.run

    def fail(database: Database, sql: str, parameters: tuple[object, ...] = ()) -> int:
        if sql == "COMMIT":
            run(database, "COMMIT" if holds else "ROLLBACK")
            raise StateError("the disk says that something is wrong")
        return run(database, sql, parameters)

    with monkeypatch.context() as patch:
        patch.setattr(Database, "run", fail)
        with pytest.raises(StateError):
            writer.write(records("b", "c"), NOW)
    writer.write(records(*next_batch), NOW)
    names = ["a", *(["b", "c"] if holds or next_batch != ["other"] else []), *next_batch]
    assert place.open_files == [f"begin {' '.join(dict.fromkeys(names))} "]
    assert place.manifest.known([digest("b")]) == ({digest("b")} if "b" in names else set())


@pytest.mark.parametrize("limit", ["MOST_WAITING_SEGMENTS", "MOST_WAITING_BYTES"])
def test_nothing_is_taken_while_too_much_waits_to_be_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
):
    place = Place(tmp_path, SealedAt(1, 900))
    monkeypatch.setattr(batches, limit, 2 if limit == "MOST_WAITING_SEGMENTS" else 16)
    writer = place.writer()
    writer.write(records("a"), NOW)
    writer.write(records("b"), NOW)
    with pytest.raises(SpoolFull, match="2 files with 0 MiB wait to be published"):
        writer.write(records("c"), NOW)
    # What is there already is only acknowledged.
    writer.write(records("a", "b"), NOW)
    place.publishing().sweep(NOW)
    writer.write(records("c"), NOW)
    place.publishing().sweep(NOW)
    assert place.published == ["begin a ", "begin b ", "begin c "]
    place.close()
