"""Who of several processes of the API reads a seed file, and what becomes of it when one ends."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from manyhands.api.crawls import seed_files, seed_lines
from manyhands.api.crawls.seed_files import SeedFiles
from manyhands.api.crawls.store import CrawlStore, open_store
from manyhands.shared.crawl.spec import CrawlSpec
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store import clock
from manyhands.shared.crawl.store.errors import StateAway
from manyhands.shared.crawl.store.model import Crawl, NewCrawl, SeedFile
from manyhands.shared.crawl.store.protocol import ControlStore
from manyhands.shared.public_addresses import AddressRule

SHARDS = 3
WITHIN_S = 20


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small parts, and no long waits."""
    monkeypatch.setattr(seed_lines, "LINES_AT_ONCE", 10)
    for name in ("LOOK_S", "TRY_AGAIN_S", "AWAY_LOOK_S"):
        monkeypatch.setattr(seed_files, name, 0.01)


class Scene:
    """State: the stores of several processes, which share a state; and who reads there."""

    def __init__(self, directory: Path, opened: AsyncExitStack) -> None:
        self.state = directory / "state"
        self.files = directory / "files"
        self.files.mkdir()
        self._opened = opened

    async def store(self) -> CrawlStore:
        store = await open_store((str(self.state),), SHARDS)
        self._opened.push_async_callback(store.close)
        return store

    async def reader(self, store: CrawlStore, files: Path | None = None) -> SeedFiles:
        reader = SeedFiles(store, files or self.files, AddressRule())
        self._opened.push_async_callback(reader.close)
        return reader

    def write(self, lines: int, begin: str = "") -> None:
        text = "".join(f"https://site{number}.example/\n" for number in range(lines))
        (self.files / "seeds.txt").write_text(begin + text)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with AsyncExitStack() as opened:
        yield Scene(tmp_path, opened)


async def create(store: CrawlStore) -> int:
    spec = CrawlSpec(contact="me@example.org", seed_file="seeds.txt")
    crawl, _ = await store.control(lambda control: control.create_crawl(NewCrawl(spec), 1.0))
    return crawl.id


async def until(
    store: CrawlStore, crawl: int, holds: Callable[[Crawl, SeedFile], bool]
) -> SeedFile:
    async with asyncio.timeout(WITHIN_S):
        while True:
            found = await store.control(lambda control: control.crawl(crawl))
            file = await store.control(lambda control: control.files.seed_file(crawl))
            assert file is not None
            if holds(found, file):
                return file
            await asyncio.sleep(0.005)


def is_read(crawl: Crawl, file: SeedFile) -> bool:
    return crawl.has_all_seeds and file.is_read


def has_trouble(_: Crawl, file: SeedFile) -> bool:
    return bool(file.trouble)


async def seeds(store: CrawlStore) -> list[str]:
    def waiting(control: ControlStore) -> list[str]:
        return [
            url
            for shard in range(SHARDS)
            for batch in control.seeds(shard, 10_000)
            for url in batch.urls
        ]

    return sorted(await store.control(waiting))


async def notes(store: CrawlStore, crawl: int) -> list[str]:
    return [text for _, text in await store.control(lambda control: control.notes(crawl, 9))]


def sites(count: int) -> list[str]:
    return sorted(f"https://site{number}.example/" for number in range(count))


async def test_a_seed_file_is_read_to_its_end_and_counted(scene: Scene) -> None:
    scene.write(55, "# ours\nnowhere\n")
    store = await scene.store()
    reader = await scene.reader(store)
    crawl = await create(store)
    reader.look_soon()
    file = await until(store, crawl, is_read)
    assert (file.lines, file.refused, file.trouble) == (57, 1, "")
    assert await seeds(store) == sites(55)
    assert await notes(store, crawl) == [
        "the seed file was read: 57 lines, of which 1 were refused",
        "the seed file: line 2 is no URL to be fetched",
    ]


async def test_several_processes_read_each_file_once(scene: Scene) -> None:
    scene.write(200)
    stores = [await scene.store() for _ in range(3)]
    crawls = [await create(stores[0]) for _ in range(3)]
    for store in stores:
        await scene.reader(store)
    for crawl in crawls:
        assert (await until(stores[0], crawl, is_read)).lines == 200
    assert await seeds(stores[0]) == sorted(sites(200) * 3)


async def test_one_that_ends_leaves_the_rest_to_another(scene: Scene, monkeypatch) -> None:
    scene.write(300)
    store, other = await scene.store(), await scene.store()
    first = await scene.reader(store)
    crawl = await create(store)
    await until(store, crawl, lambda _, file: file.lines >= 20)
    await first.close()
    left = await until(store, crawl, lambda _, file: not file.reader)
    assert 20 <= left.lines < 300
    await scene.reader(other)
    await until(store, crawl, is_read)
    assert await seeds(store) == sites(300)


async def test_a_process_without_the_file_leaves_it_to_one_that_has_it(
    scene: Scene, tmp_path: Path
) -> None:
    scene.write(30)
    (tmp_path / "elsewhere").mkdir()
    store, other = await scene.store(), await scene.store()
    without = await scene.reader(other, tmp_path / "elsewhere")
    crawl = await create(store)
    without.look_soon()
    await asyncio.sleep(0.1)
    found = await until(store, crawl, lambda *_: True)
    assert (found.reader, found.trouble) == ("", "")
    await scene.reader(store)
    await until(store, crawl, is_read)


async def test_a_file_that_is_another_one_by_now_waits_until_the_first_is_back(
    scene: Scene,
) -> None:
    scene.write(300)
    store, other = await scene.store(), await scene.store()
    first = await scene.reader(store)
    crawl = await create(store)
    await until(store, crawl, lambda _, file: file.lines >= 20)
    await first.close()
    scene.write(300, "https://new.example/\n")
    await scene.reader(other)
    assert "does not begin with them" in (await until(store, crawl, has_trouble)).trouble
    scene.write(300)
    assert (await until(store, crawl, is_read)).trouble == ""
    assert await seeds(store) == sites(300)


async def test_a_crawl_that_is_cancelled_takes_no_more(scene: Scene, monkeypatch) -> None:
    monkeypatch.setattr(seed_files, "MOST_WAITING", 20)
    scene.write(3000)
    store = await scene.store()
    await scene.reader(store)
    crawl = await create(store)
    # As nobody takes them.
    file = await until(store, crawl, lambda _, file: file.lines > 20)
    await asyncio.sleep(0.2)
    waits = await until(store, crawl, lambda *_: True)
    assert file.lines <= waits.lines < 200
    assert waits.until > clock.now()
    await store.control(
        lambda control: control.change_state(
            crawl, {CrawlState.STARTING}, CrawlState.STOPPING, 1.0, ends_as=CrawlState.CANCELLED
        )
    )
    await asyncio.sleep(0.2)
    assert (await until(store, crawl, lambda *_: True)).lines == waits.lines


async def test_a_store_that_is_away_is_waited_for(scene: Scene, monkeypatch) -> None:
    scene.write(100)
    store = await scene.store()
    crawl = await create(store)
    ask = CrawlStore.layout
    lost = iter([StateAway("it does not answer")] * 3)

    def layout(self: CrawlStore, control: ControlStore) -> object:
        if error := next(lost, None):
            raise error
        return ask(self, control)

    monkeypatch.setattr(CrawlStore, "layout", layout)
    await scene.reader(store)
    await until(store, crawl, is_read)
    assert await seeds(store) == sites(100)
