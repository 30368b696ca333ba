"""Files that one process at a time writes."""

import errno
import os
from pathlib import Path

import pytest

from manyhands.worker.sinks.files.segment_file import SegmentFile, make_directory


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some.open"


def taken(path: Path) -> SegmentFile:
    file = SegmentFile.take(path)
    assert file is not None
    return file


def test_a_file_is_locked_until_it_is_closed(path: Path):
    with SegmentFile.make(path):
        assert SegmentFile.take(path) is None
        assert SegmentFile.make_or_take(path) is None
    taken(path).close()


def test_a_file_is_made_once(path: Path):
    SegmentFile.make(path).close()
    with pytest.raises(FileExistsError):
        SegmentFile.make(path)


def test_a_file_that_is_not_there_cannot_be_taken(path: Path):
    with pytest.raises(FileNotFoundError):
        SegmentFile.take(path)


def test_one_that_was_renamed_while_it_was_opened_is_not_taken(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    SegmentFile.make(path).close()
    real = os.open

    def open_late(*arguments: object) -> int:
        descriptor = real(*arguments)  # type: ignore[arg-type]
        path.rename(path.with_suffix(""))
        return descriptor

    monkeypatch.setattr(os, "open", open_late)
    assert SegmentFile.take(path) is None


def test_what_is_put_is_the_end_of_the_file(path: Path):
    with SegmentFile.make(path) as file:
        file.put(b"hello world, and more", 0)
        file.put(b"hello", 0)
        file.put(b", you", 5)
    assert path.read_bytes() == b"hello, you"


def test_a_system_that_writes_little_at_a_time_writes_all(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda d, data, at: real(d, bytes(data[:3]), at))
    with SegmentFile.make(path) as file:
        file.put(b"hello world", 0)
    assert path.read_bytes() == b"hello world"


def test_a_full_disk_leaves_nothing_of_what_was_put(path: Path, monkeypatch: pytest.MonkeyPatch):
    real = os.pwrite
    room = 4

    def write_some(descriptor: int, data: memoryview, offset: int) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = real(descriptor, bytes(data[:room]), offset)
        room -= written
        return written

    with SegmentFile.make(path) as file:
        file.put(b"kept", 0)
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", write_some)
            with pytest.raises(OSError, match="No space"):
                file.put(b" and lost", 4)
        assert path.read_bytes() == b"kept"
        file.put(b" again", 4)
    assert path.read_bytes() == b"kept again"


def test_an_fsync_that_fails_is_no_success(path: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with SegmentFile.make(path) as file:
        file.put(b"kept", 0)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", fail)
            with pytest.raises(OSError, match="Input/output"):
                file.put(b" and lost", 4)
    assert path.read_bytes() == b"kept"


def test_a_directory_is_made_with_all_above_it(tmp_path: Path):
    make_directory(tmp_path / "a" / "b" / "c")
    make_directory(tmp_path / "a" / "b" / "c")
    assert (tmp_path / "a" / "b" / "c").is_dir()


def test_a_file_is_no_directory(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError):
        make_directory(tmp_path / "file" / "below")
