"""The state store behind the routes: shards that come, and shards that are arranged anew."""

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from manyhands.api.crawls.store import open_store
from manyhands.api.problems import Problem
from manyhands.shared.crawl.store.errors import StateAway
from manyhands.shared.crawl.store.model import Layout
from manyhands.shared.crawl.store.protocol import ControlStore
from manyhands.shared.crawl.store.sqlite.directory import open_control, open_shard
from tests.support.crawl_state import crawled


def numbers_and_pages(directory: Path) -> "list[tuple[int, int]]":
    async def ask() -> list[tuple[int, int]]:
        store = await open_store((str(directory),), 4)
        try:
            return await store.shards(
                lambda readers, layout: [
                    (shard, reader.counters(1)["pages"]) for shard, reader in readers.each(layout)
                ]
            )
        finally:
            await store.close()

    return asyncio.run(ask())


def test_a_shard_that_was_never_owned_is_left_out(tmp_path):
    assert numbers_and_pages(tmp_path) == []
    crawled(tmp_path, 4, 1, "example.org", "/", "/a")
    ((_, pages),) = numbers_and_pages(tmp_path)
    assert pages == 2


def test_readers_follow_the_layout(tmp_path):
    """They were opened in one generation, and are opened anew in the next."""
    with closing(open_control(tmp_path)) as control:
        control.layout(4)

    def make_shard(generation: int, shard: int) -> None:
        open_shard(tmp_path, generation, shard, 1, 0.0).close()

    async def run() -> None:
        store = await open_store((str(tmp_path),), 4)

        async def shards(first: int = 0) -> list[int]:
            return await store.shards(
                lambda readers, layout: [shard for shard, _ in readers.each(layout, first)]
            )

        make_shard(1, 0)
        assert await shards() == [0]
        make_shard(1, 3)
        assert await shards() == [0, 3]
        assert await shards(first=1) == [3]
        await store.control(lambda control: control.finish_reshard(2, 8))
        make_shard(2, 7)
        assert await shards() == [7]
        layout = await store.control(store.layout)
        assert layout == Layout(generation=2, shards=8, wanted=4, most_ever=8)
        await store.close()

    asyncio.run(run())


def test_what_the_store_says_is_told_as_a_problem(tmp_path):
    async def run() -> None:
        store = await open_store((str(tmp_path),), 4)
        with pytest.raises(Problem) as caught:
            await store.control(lambda control: control.crawl(99))
        assert caught.value.status == 404
        await store.close()

    asyncio.run(run())


def test_one_who_waits_for_a_shard_does_not_hold_up_the_others(tmp_path):
    async def run() -> None:
        store = await open_store((str(tmp_path),), 4)
        going_on = asyncio.Event()
        loop = asyncio.get_running_loop()
        waiting = asyncio.ensure_future(
            store.aside(lambda: asyncio.run_coroutine_threadsafe(going_on.wait(), loop).result(10))
        )
        assert (await store.control(store.layout)).shards == 4
        assert not waiting.done()
        going_on.set()
        assert await waiting
        await store.close()

    asyncio.run(run())


def test_who_asks_while_the_store_is_away_hears_that_crawls_wait_for_it(tmp_path):
    def away(_: ControlStore) -> None:
        raise StateAway("db.example cannot be used: Connection refused")

    async def run() -> None:
        store = await open_store((str(tmp_path),), 4)
        with pytest.raises(Problem, match=r"crawls wait for the database .* refused") as told:
            await store.control(away)
        assert (told.value.status, told.value.retry_after_s) == (503, 2)
        await store.close()

    asyncio.run(run())
