"""Changes of shard stores from the event loop: together, in order, and all or nothing."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import pytest

from manyhands.shared.crawl.store.absence import Absence
from manyhands.shared.crawl.store.errors import StateAway, StateDamaged
from manyhands.shared.crawl.store.model import LeaseLost
from manyhands.shared.crawl.store.protocol import ShardStore
from manyhands.worker.crawl.shards.store_threads import StoreThreads


class RecordingStore:
    """State: what happened, in order."""

    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.is_lost = False

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        if self.is_lost:
            raise LeaseLost("another has it")
        self.log.append("begin")
        yield
        self.log.append("commit")

    def run(self, work: Any) -> Any:
        with self.transaction():
            return work()

    def close(self) -> None:
        self.log.append("close")


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def stored(log: list[str]) -> RecordingStore:
    return RecordingStore(log)


@pytest.fixture
async def thread(stored: RecordingStore) -> AsyncIterator[StoreThreads]:
    thread = StoreThreads(lambda: 0.05, gather_s=0.01, writers=lambda: 1, places=[Absence("")])
    await thread.open(7, lambda: cast("ShardStore", stored))
    yield thread
    await thread.stop()


def note(text: str) -> Any:
    def noted(store: Any) -> str:
        store.log.append(text)
        return text

    return noted


async def test_how_many_write_is_asked_when_there_is_first_something_to_do(
    stored: RecordingStore,
) -> None:
    """Before that, the store has not been opened, and does not know."""
    names = []
    known = 0
    threads = StoreThreads(lambda: 0.0, gather_s=0.0, writers=lambda: known, places=[Absence("")])
    known = 2
    await threads.open(7, lambda: cast("ShardStore", stored))
    names = [one.name for one in threading.enumerate() if one.name.startswith("crawl-store-")]
    await threads.stop()

    assert sorted(names) == ["crawl-store-0-0", "crawl-store-0-1"]


async def test_changes_that_come_together_share_a_transaction(
    thread: StoreThreads, log: list[str]
) -> None:
    results = await asyncio.gather(thread.change(7, note("a")), thread.change(7, note("b")))

    assert list(results) == ["a", "b"]
    assert log == ["begin", "a", "b", "commit"]


async def test_each_transaction_is_measured_once(thread: StoreThreads) -> None:
    await asyncio.gather(thread.change(7, note("a")), thread.change(7, note("b")))
    await thread.change(7, note("c"))
    assert sum(thread.took.buckets) == 2


async def test_what_nobody_waits_for_goes_first_with_the_next_change(
    thread: StoreThreads, log: list[str]
) -> None:
    patient = thread.change_some_time(7, note("patient"))
    await thread.change(7, note("urgent"))

    assert await patient == "patient"
    assert log == ["begin", "patient", "urgent", "commit"]


async def test_changes_of_a_shard_keep_the_order_in_which_they_were_asked_for(
    thread: StoreThreads, log: list[str]
) -> None:
    """One that takes a domain, and the one that then gives it up."""
    first = thread.change_some_time(7, note("patient"))
    second = thread.change(7, note("urgent"))
    third = thread.change_some_time(7, note("patient, later"))
    fourth = thread.change(7, note("urgent, later"))
    await asyncio.gather(first, second, third, fourth)

    assert log == ["begin", "patient", "urgent", "patient, later", "urgent, later", "commit"]


async def test_what_nobody_waits_for_keeps_its_place_when_a_change_of_another_shard_goes(
    thread: StoreThreads, log: list[str]
) -> None:
    await thread.open(8, lambda: cast("ShardStore", RecordingStore([])))
    urgent = thread.change(7, note("urgent"))
    await thread.change(8, note("of another shard"))
    patient = thread.change_some_time(7, note("patient"))
    await asyncio.gather(urgent, patient)

    assert log == ["begin", "urgent", "commit", "begin", "patient", "commit"]


async def test_what_nobody_waits_for_goes_by_itself_in_the_end(
    thread: StoreThreads, log: list[str]
) -> None:
    assert await thread.change_some_time(7, note("patient")) == "patient"
    assert log == ["begin", "patient", "commit"]


async def test_nothing_is_left_behind_when_a_shard_is_closed(
    thread: StoreThreads, log: list[str]
) -> None:
    patient = thread.change_some_time(7, note("patient"))
    await thread.close(7)

    assert await patient == "patient"
    assert log == ["begin", "patient", "commit", "close"]


async def test_a_shard_that_is_not_open_here_is_lost(thread: StoreThreads) -> None:
    with pytest.raises(LeaseLost, match="shard 8"):
        await thread.change(8, note("a"))


async def test_a_lost_lease_fails_all_changes_of_that_shard_and_no_other(
    thread: StoreThreads, stored: RecordingStore
) -> None:
    other_log: list[str] = []
    await thread.open(8, lambda: cast("ShardStore", RecordingStore(other_log)))
    stored.is_lost = True

    lost = [thread.change(7, note("a")), thread.change(7, note("b"))]
    kept = thread.change(8, note("c"))

    assert await kept == "c"
    for change in lost:
        with pytest.raises(LeaseLost):
            await change


async def test_a_change_that_fails_takes_those_of_its_transaction_with_it(
    thread: StoreThreads, log: list[str]
) -> None:
    def fails(_store: Any) -> None:
        raise OSError("no space left")

    first, second = thread.change(7, note("a")), thread.change(7, fails)

    for change in (first, second):
        with pytest.raises(OSError, match="no space"):
            await cast("asyncio.Future[Any]", change)
    assert "commit" not in log


def note_all(store: Any, items: list[str]) -> None:
    store.log.append("+".join(items))


def note_last(store: Any, items: list[str]) -> None:
    store.log.append("last " + "+".join(items))


def note_more(store: Any, items: list[str]) -> list[str]:
    store.log.append("more " + "+".join(items))
    return [f"more {item}" for item in items]


async def test_items_of_the_same_call_go_in_one_call(thread: StoreThreads, log: list[str]) -> None:
    told = thread.change_together(7, note_all, "a")
    thread.change_some_time(7, note("between"))
    assert thread.change_together(7, note_all, "b") is told
    await thread.change(7, note("urgent"))

    assert told.done()
    assert log == ["begin", "a+b", "between", "urgent", "commit"]


async def test_what_comes_after_a_call_has_gone_is_another_call(
    thread: StoreThreads, log: list[str]
) -> None:
    await thread.change_together(7, note_all, "a")
    await thread.change_together(7, note_all, "b")

    assert log == ["begin", "a", "commit", "begin", "b", "commit"]


async def test_items_of_calls_that_wait_for_the_same_transaction_go_in_one_call(
    thread: StoreThreads, log: list[str]
) -> None:
    is_written, may_end = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def writes(_store: Any) -> None:
        loop.call_soon_threadsafe(is_written.set)
        may_end.wait()

    first = thread.change(7, writes)
    await is_written.wait()
    told: list[asyncio.Future[Any]] = []
    for item in "ab":
        told.append(thread.change_together(7, note_all, item))
        told.append(thread.change_together(7, note_last, item, is_last=True))
        told.append(thread.change_with(7, note_more, item))
        # Handed over: what comes now is a call of its own.
        while thread._gathered:  # noqa: ASYNC110
            await asyncio.sleep(0)
    may_end.set()
    _, *answers = await asyncio.gather(first, *told)

    assert answers == [None, None, "more a", None, None, "more b"]
    assert log == ["begin", "commit", "begin", "a+b", "more a+b", "last a+b", "commit"]


async def test_patience_can_be_lost_before_its_time(log: list[str], stored: RecordingStore) -> None:
    thread = StoreThreads(lambda: 3600.0, gather_s=0.01, writers=lambda: 1, places=[Absence("")])
    await thread.open(7, lambda: cast("ShardStore", stored))
    patient = thread.change_some_time(7, note("patient"))
    thread.lose_patience()

    assert await patient == "patient"
    assert log == ["begin", "patient", "commit"]
    await thread.stop()


async def test_a_file_that_cannot_be_used_is_told_of_and_ends_as_a_lost_lease(
    thread: StoreThreads, log: list[str]
) -> None:
    """Those who work on a shard know what to do when it is lost, and other shards go on."""
    told: list[tuple[int, str]] = []
    thread.failed.tell(lambda shard, error: told.append((shard, str(error))))

    def fails(_: ShardStore) -> None:
        raise StateDamaged("shard-07.db is damaged")

    with pytest.raises(LeaseLost, match=r"shard-07\.db is damaged"):
        await thread.change(7, fails)
    assert told == [(7, "shard-07.db is damaged")]
    assert await thread.change(7, note("later")) == "later"
    assert "later" in log


async def test_shards_are_written_side_by_side(log: list[str]) -> None:
    writers = 3
    threads = StoreThreads(
        lambda: 0.0, gather_s=0.01, writers=lambda: writers, places=[Absence("")]
    )
    for shard in range(writers):
        await threads.open(shard, lambda: cast("ShardStore", RecordingStore([])))
    # Passed only if all of them are in a transaction at once.
    together = threading.Barrier(writers, timeout=10)
    first = [threads.change(shard, lambda _: together.wait()) for shard in range(writers)]
    second = [threads.change(0, lambda _: log.append("next")) for _ in range(2)]
    await asyncio.gather(*first, *second)

    assert log == ["next", "next"]
    await threads.stop()


class AwayStore(RecordingStore):
    """State: how often it is still away."""

    def __init__(self, log: list[str], times: int) -> None:
        super().__init__(log)
        self.times = times

    def run(self, work: Any) -> Any:
        if self.times:
            self.times -= 1
            raise StateAway("the server is away")
        return super().run(work)


async def test_changes_wait_while_the_place_of_their_shard_is_away(log: list[str]) -> None:
    places = [Absence("here"), Absence("away")]
    for place in places:
        place.is_waited_for = True
    threads = StoreThreads(lambda: 0.0, gather_s=0.01, writers=lambda: 1, places=places)
    told: list[int] = []
    threads.failed.tell(lambda shard, _: told.append(shard))
    away = AwayStore(log, times=10**9)
    await threads.open(0, lambda: cast("ShardStore", RecordingStore([])))
    await threads.open(1, lambda: cast("ShardStore", away))

    waiting = threads.change(1, note("waited"))
    assert await threads.change(0, lambda _: "elsewhere") == "elsewhere"
    assert not waiting.done()
    away.times = 0

    assert await waiting == "waited"
    assert log == ["begin", "waited", "commit"]
    assert told == []
    await threads.stop()


async def test_nobody_waits_for_a_place_that_is_away_once_the_owner_stops(log: list[str]) -> None:
    place = Absence("away")
    place.is_waited_for = True
    threads = StoreThreads(lambda: 0.0, gather_s=0.01, writers=lambda: 1, places=[place])
    await threads.open(0, lambda: cast("ShardStore", AwayStore(log, times=10**9)))
    waiting = threads.change(0, note("lost"))
    place.is_waited_for = False

    with pytest.raises(LeaseLost, match="the server is away"):
        await waiting
    assert log == []
    await threads.stop()
