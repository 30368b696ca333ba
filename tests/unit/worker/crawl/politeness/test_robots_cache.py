"""The cache of parsed rules: its bound, and many who ask while one fetch runs."""

import asyncio
import threading
import tracemalloc

import pytest

from manyhands.shared.crawl.store.model import LeaseLost, StoredRobots
from manyhands.worker.crawl.politeness import robots_cache as robots_source
from manyhands.worker.crawl.politeness.delays import OriginState
from manyhands.worker.crawl.politeness.robots import RULES, RobotsRules, rules_of
from manyhands.worker.crawl.politeness.robots_cache import PARSED_IN_A_THREAD_BYTES, RobotsCache

NOW = 1_800_000_000.0
DAY = 86_400.0


class Source:
    """`gate` holds up every fetch until it is set."""

    def __init__(self, body: bytes = b"User-agent: *\nDisallow: /a\n") -> None:
        self.body = body
        self.gate = asyncio.Event()
        self.gate.set()
        self.begun = asyncio.Event()
        self.error: Exception | None = None
        self.kept: dict[str, StoredRobots] = {}
        self.fetched: list[str] = []
        self.loaded: list[str] = []

    async def load(self, origin: str) -> StoredRobots | None:
        self.loaded.append(origin)
        return self.kept.get(origin)

    async def keep(self, origin: str, robots: StoredRobots) -> None:
        self.kept[origin] = robots

    async def fetch(self, origin: str) -> StoredRobots:
        self.fetched.append(origin)
        self.begun.set()
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return StoredRobots(RULES, self.body, NOW, NOW + DAY)


def make_cache(most_bytes: int = 10**6) -> RobotsCache:
    return RobotsCache(most_bytes, 30.0, now=lambda: NOW)


async def test_a_caller_that_is_cancelled_does_not_cancel_the_others():
    cache, source = make_cache(), Source()
    source.gate.clear()
    first, second = (
        asyncio.create_task(cache.get("http://a.example", source, OriginState())) for _ in "ab"
    )
    await source.begun.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    source.gate.set()
    assert not (await second).allows("http://a.example/a")
    assert source.fetched == ["http://a.example"]


async def test_a_fetch_that_everybody_has_left_is_finished_and_kept():
    cache, source = make_cache(), Source()
    source.gate.clear()
    only = asyncio.create_task(cache.get("http://a.example", source, OriginState()))
    await source.begun.wait()
    only.cancel()
    with pytest.raises(asyncio.CancelledError):
        await only
    source.gate.set()
    await cache.get("http://a.example", source, OriginState())
    assert source.fetched == ["http://a.example"]


async def test_an_error_reaches_everybody_who_waits_and_the_next_one_asks_again():
    cache, source = make_cache(), Source()
    source.error = LeaseLost("gone")
    asked = [cache.get("http://a.example", source, OriginState()) for _ in range(3)]
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert found == [source.error] * 3
    assert source.fetched == ["http://a.example"]
    source.error = None
    assert (await cache.get("http://a.example", source, OriginState())).kind == RULES


async def test_an_error_that_nobody_waits_for_is_not_complained_about():
    complaints: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: complaints.append(context))
    cache, source = make_cache(), Source()
    source.gate.clear()
    source.error = LeaseLost("gone")
    only = asyncio.create_task(cache.get("http://a.example", source, OriginState()))
    await source.begun.wait()
    only.cancel()
    source.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await only
    await cache.close()
    assert complaints == []


async def test_origins_are_fetched_side_by_side():
    cache = make_cache()
    everybody = asyncio.Barrier(20)

    class Together(Source):
        async def fetch(self, origin: str) -> StoredRobots:
            await everybody.wait()
            return await super().fetch(origin)

    source = Together()
    asked = [cache.get(f"http://{n}.example", source, OriginState()) for n in range(20)]
    assert len(await asyncio.gather(*asked)) == 20


async def test_close_ends_what_is_under_way():
    cache, source = make_cache(), Source()
    source.gate.clear()
    waiting = asyncio.create_task(cache.get("http://a.example", source, OriginState()))
    await source.begun.wait()
    await cache.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_what_is_in_memory_is_not_asked_for():
    cache, source = make_cache(), Source()
    assert cache.peek("http://a.example") is None
    rules = await cache.get("http://a.example", source, OriginState())
    assert cache.peek("http://a.example") is rules
    assert await cache.get("http://a.example", source, OriginState()) is rules
    assert source.loaded == ["http://a.example"]


async def test_what_the_store_has_is_not_fetched():
    cache, source = make_cache(), Source()
    source.kept["http://a.example"] = StoredRobots(RULES, source.body, NOW, NOW + 1)
    assert not (await cache.get("http://a.example", source, OriginState())).allows("http://a/a")
    assert source.fetched == []


async def test_the_memory_is_bounded_by_bytes_and_the_longest_unused_goes_first():
    source = Source()
    one = rules_of(StoredRobots(RULES, source.body, NOW, NOW + DAY)).size_bytes
    cache = make_cache(most_bytes=3 * one)
    for name in "abc":
        await cache.get(name, source, OriginState())
    assert cache.peek("a") is not None
    await cache.get("d", source, OriginState())
    assert [name for name in "abcd" if cache.peek(name)] == ["a", "c", "d"]
    assert (len(cache), cache.size_bytes) == (3, 3 * one)


async def test_rules_that_are_larger_than_the_memory_are_not_kept():
    source = Source(b"User-agent: *\n" + b"Disallow: /a\n" * 100)
    cache = make_cache(most_bytes=1000)
    assert not (await cache.get("a", source, OriginState())).allows("http://a/a")
    assert (len(cache), cache.size_bytes) == (0, 0)
    await cache.get("a", source, OriginState())
    assert source.fetched == ["a"]


async def test_a_large_file_is_parsed_outside_the_loop(monkeypatch):
    threads: dict[int, int] = {}

    def watched(stored: StoredRobots) -> RobotsRules:
        threads[len(stored.body)] = threading.get_ident()
        return rules_of(stored)

    monkeypatch.setattr(robots_source, "rules_of", watched)
    small = Source(b"User-agent: *\nDisallow: /a\n".ljust(PARSED_IN_A_THREAD_BYTES))
    large = Source(b"User-agent: *\nDisallow: /a\n".ljust(PARSED_IN_A_THREAD_BYTES + 1))
    cache = make_cache()
    for name, source in (("small", small), ("large", large)):
        assert not (await cache.get(name, source, OriginState())).allows("http://a/a")
    here = threading.get_ident()
    assert threads[len(small.body)] == here
    assert threads[len(large.body)] != here


@pytest.mark.parametrize(
    "line",
    [b"Disallow: /private/%d/\n", b"Allow: /a*b%d$\n", b"Disallow: /" + b"x" * 200 + b"%d\n"],
)
@pytest.mark.parametrize("count", [10, 1000])
def test_the_size_of_rules_is_near_what_they_take(line, count):
    body = b"User-agent: *\n" + b"".join(line % n for n in range(count))
    stored = StoredRobots(RULES, body, NOW, NOW + DAY)
    rules_of(stored).allows("http://a/b")
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        rules = rules_of(stored)
        rules.allows("http://a/b")
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.7 < rules.size_bytes / (after - before) < 1.7


def test_the_rules_of_others_take_no_memory():
    others = b"".join(b"User-agent: bot%d\nDisallow: /%d/\n\n" % (n, n) for n in range(1000))
    small = rules_of(StoredRobots(RULES, b"User-agent: *\nDisallow: /a\n", NOW, NOW + DAY))
    large = rules_of(StoredRobots(RULES, others + b"User-agent: *\nDisallow: /a\n", NOW, NOW + DAY))
    assert large.size_bytes == small.size_bytes
