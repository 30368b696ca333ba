"""What of a place counts."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from manyhands.shared.crawl.store.errors import StateBusy, StateError
from manyhands.shared.errors import ConfigError
from manyhands.shared.sinks.manifest_tables import Segment, SegmentState
from manyhands.worker.sinks.files import manifest as manifest_module
from manyhands.worker.sinks.files.manifest import Manifest, digest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "place" / "some.manifest"


@pytest.fixture
def manifest(path: Path) -> Iterator[Manifest]:
    manifest = Manifest.open(path)
    yield manifest
    manifest.close()


@pytest.fixture
def other(path: Path, manifest: Manifest) -> Iterator[Manifest]:
    """That of another process."""
    other = Manifest.open(path)
    yield other
    other.close()


def digests(*names: str) -> list[bytes]:
    return [digest(name) for name in names]


def test_an_id_is_added_once(manifest: Manifest, other: Manifest):
    with manifest.transaction():
        assert manifest.add_ids(digests("a", "b")) == set(digests("a", "b"))
    with other.transaction():
        assert other.add_ids(digests("b", "c")) == {digest("c")}
    assert manifest.known(digests("a", "c", "d")) == set(digests("a", "c"))


def test_what_is_not_committed_is_not_there(manifest: Manifest, other: Manifest):
    with pytest.raises(KeyError), manifest.transaction():
        manifest.create("one", 1.0)
        manifest.add_ids(digests("a"))
        raise KeyError
    assert other.known(digests("a")) == set()
    assert other.unfinished() == []


def test_very_many_ids_at_once_are_no_trouble(manifest: Manifest, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(manifest_module, "_AT_ONCE", 7)
    names = digests(*map(str, range(50)))
    with manifest.transaction():
        assert manifest.add_ids(names) == set(names)
    assert manifest.known(names) == set(names)
    assert manifest.known([]) == set()


def test_any_text_can_be_an_id():
    assert len({digest(name) for name in ("", "\0", "\udc80", "ä", "a" * 100_000)}) == 5


def test_a_segment_goes_through_its_states(manifest: Manifest):
    manifest.create("one", 1.5)
    manifest.grow("one", 100, 3, SegmentState.OPEN)
    manifest.grow("one", 150, 2, SegmentState.SEALED)
    assert manifest.segment("one") == Segment("one", SegmentState.SEALED, 150, 5, 1.5)
    assert manifest.unfinished() == [manifest.segment("one")]
    assert manifest.backlog() == (1, 150)
    manifest.set_state("one", SegmentState.PUBLISHED)
    assert manifest.unfinished() == []
    assert manifest.backlog() == (0, 0)


def test_the_oldest_segment_comes_first(manifest: Manifest):
    for name, created_at in (("b", 2.0), ("c", 1.0), ("a", 2.0)):
        manifest.create(name, created_at)
    assert [segment.name for segment in manifest.unfinished()] == ["c", "a", "b"]


def test_a_commit_is_on_disk_before_it_returns(manifest: Manifest, path: Path):
    assert manifest._database.value("PRAGMA synchronous") == 2
    assert manifest._database.value("PRAGMA journal_mode") == "wal"


def test_one_that_has_to_wait_for_too_long_says_so(
    manifest: Manifest, path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(manifest_module, "BUSY_MS", 20)
    impatient = Manifest.open(path)
    with manifest.transaction(), pytest.raises(StateBusy), impatient.transaction():
        pass
    impatient.close()


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"SQLite format 3\0" * 300])
def test_what_is_no_manifest_can_never_be_used(path: Path, content: bytes):
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"some\.manifest"):
        Manifest.open(path)


def test_the_database_of_another_program_is_left_alone(path: Path):
    path.parent.mkdir()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    with pytest.raises(ConfigError, match="some other program"):
        Manifest.open(path)


def test_a_place_that_cannot_be_made_can_never_be_used(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be made"):
        Manifest.open(tmp_path / "file" / "below" / "some.manifest")


def test_a_full_disk_is_no_wrong_setting(path: Path, monkeypatch: pytest.MonkeyPatch):
    full = sqlite3.OperationalError("database or disk is full")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL

    def fail(*_: object) -> None:
        raise StateError("it cannot be used: database or disk is full") from full

    monkeypatch.setattr(manifest_module, "open_file", fail)
    with pytest.raises(StateError, match="disk is full"):
        Manifest.open(path)
