"""What the sinks that write files have in common: opening, looking after files, closing."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from manyhands.shared.crawl.store.errors import StateBusy
from manyhands.shared.errors import ConfigError
from manyhands.worker.records import PlainRecord
from manyhands.worker.sinks.files import file_sink
from manyhands.worker.sinks.files.batches import BatchWriter, SealedAt
from manyhands.worker.sinks.files.file_sink import FileSink
from manyhands.worker.sinks.files.manifest import Manifest
from manyhands.worker.sinks.files.publishing import Directory, Publishing, as_it_is
from manyhands.worker.sinks.files.segments import Spool
from tests.support.sink_records import plain
from tests.support.waiting import eventually
from tests.unit.worker.sinks.files.spooled import NOW, TextFormat, records

# Each batch is a segment.
AT_ONCE = SealedAt(1, 900)


class Shelf(Directory):
    """A store that can be down."""

    is_down = False
    attempts = 0

    def put(self, path: Path, name: str) -> None:
        self.attempts += 1
        if self.is_down:
            raise OSError("the shelf is down")
        super().put(path, name)


class Sink(FileSink):
    """One of text files. `opening` runs first when it is opened."""

    def __init__(self, directory: Path, sealed_at: SealedAt = AT_ONCE) -> None:
        self.directory = directory
        self.shelf = Shelf(directory / "shelf")
        self.opening: Callable[[], None] = lambda: None

        def spool() -> Spool:
            self.opening()
            return Spool(Manifest.open(directory / "manifest"), directory, ".txt")

        super().__init__(
            "text:here",
            frozenset({PlainRecord}),
            lambda: BatchWriter(spool(), TextFormat(), sealed_at),
            lambda: Publishing(spool(), self.shelf, as_it_is, sealed_at.age_s),
        )

    @property
    def published(self) -> list[str]:
        return sorted(path.read_text() for path in (self.directory / "shelf").glob("*"))


def names_in(sink: Sink) -> list[str]:
    return sorted(name for name in "".join(sink.published).split() if name != "begin")


@pytest.fixture
async def sink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Sink]:
    monkeypatch.setattr(file_sink, "SWEEP_EVERY_S", 0.05)
    sink = Sink(tmp_path)
    yield sink
    await sink.close()


async def test_a_segment_is_published_as_soon_as_it_is_complete(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(file_sink, "SWEEP_EVERY_S", 3600.0)
    await sink.open()
    await sink.write(records("a"))
    await eventually(lambda: sink.published == ["begin a "])


async def test_a_segment_that_grows_old_is_published_though_nothing_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(file_sink, "SWEEP_EVERY_S", 0.05)
    sink = Sink(tmp_path, SealedAt(1000, 0.2))
    await sink.open()
    await sink.write(records("a"))
    await eventually(lambda: sink.published == ["begin a "])
    await sink.close()


async def test_closing_publishes_what_is_there(tmp_path: Path):
    sink = Sink(tmp_path, SealedAt(1000, 900))
    await sink.open()
    await sink.write(records("a"))
    assert sink.published == []
    await sink.close()
    assert sink.published == ["begin a "]


async def test_closing_publishes_what_a_killed_process_left(tmp_path: Path):
    sealed_at = SealedAt(1000, 900)
    dead = BatchWriter(
        Spool(Manifest.open(tmp_path / "manifest"), tmp_path, ".txt"), TextFormat(), sealed_at
    )
    dead.write(records("a"), NOW)
    sink, other = Sink(tmp_path, sealed_at), Sink(tmp_path, sealed_at)
    await sink.open()
    await other.open()
    dead.close()
    await sink.write(records("b"))
    await sink.close()
    await other.close()
    assert sink.published == ["begin a ", "begin b "]


async def test_one_that_was_never_opened_can_be_closed(tmp_path: Path):
    await Sink(tmp_path).close()


async def test_one_that_cannot_be_opened_now_is_opened_later(sink: Sink):
    def busy() -> None:
        raise StateBusy("somebody else has it")

    sink.opening = busy
    with pytest.raises(StateBusy):
        await sink.open()
    sink.opening = lambda: None
    await sink.open()
    await sink.write(records("a"))
    await eventually(lambda: sink.published == ["begin a "])


@pytest.mark.parametrize("error", [PermissionError(13, "denied"), NotADirectoryError(20, "no")])
async def test_what_somebody_has_to_put_right_is_a_wrong_setting(sink: Sink, error: OSError):
    def fail() -> None:
        raise error

    sink.opening = fail
    with pytest.raises(ConfigError, match="text:here cannot be written"):
        await sink.open()


async def test_a_full_disk_is_no_wrong_setting(sink: Sink):
    def fail() -> None:
        raise OSError(28, "No space left on device")

    sink.opening = fail
    with pytest.raises(OSError, match="No space"):
        await sink.open()


async def test_what_cannot_be_published_is_tried_again_and_told_once(sink: Sink):
    with capture_logs() as logs:
        sink.shelf.is_down = True
        await sink.open()
        await sink.write(records("a"))
        await sink.write(records("b"))
        await eventually(lambda: sink.shelf.attempts >= 4)
        sink.shelf.is_down = False
        await eventually(lambda: sink.published == ["begin a ", "begin b "])
        await eventually(lambda: len(logs) >= 2)
    assert [(line["event"], line.get("reason")) for line in logs] == [
        ("files that are complete cannot be published yet", "the shelf is down"),
        ("files are published again", None),
    ]


async def test_what_cannot_be_published_at_the_end_waits_for_the_next_start(tmp_path: Path):
    sink = Sink(tmp_path)
    sink.shelf.is_down = True
    await sink.open()
    await sink.write(records("a"))
    await sink.close()
    assert sink.published == []
    successor = Sink(tmp_path)
    await successor.open()
    await successor.close()
    assert successor.published == ["begin a "]


async def test_a_write_that_nobody_waits_for_any_more_does_no_harm(sink: Sink):
    """What its thread has begun is done; the next write comes behind it."""
    await sink.open()
    write = asyncio.create_task(sink.write(records("a")))
    await asyncio.sleep(0)
    write.cancel()
    await sink.write(records("a", "b"))
    await sink.close()
    assert names_in(sink) == ["a", "b"]


async def test_many_writes_of_several_sinks_leave_each_record_once(tmp_path: Path):
    sinks = [Sink(tmp_path, SealedAt(60, 900)) for _ in range(4)]
    for sink in sinks:
        await sink.open()

    async def write_all(sink: Sink, offset: int) -> None:
        for start in range(40):
            await sink.write([plain((start * 5 + offset + n) % 200) for n in range(10)])

    async with asyncio.TaskGroup() as tasks:
        for number, sink in enumerate(sinks):
            tasks.create_task(write_all(sink, number * 50))
    for sink in sinks:
        await sink.close()
    assert names_in(sinks[0]) == sorted(plain(number).id for number in range(200))
