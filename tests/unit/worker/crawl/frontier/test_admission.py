"""URLs that come in, with real stores: nothing is done before its links are safe."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from functools import partial
from pathlib import Path

import pytest

from manyhands.shared.crawl.canonical import page_key
from manyhands.shared.crawl.cuts import Cut
from manyhands.shared.crawl.exclusions import Exclusions
from manyhands.shared.crawl.messages import LinksBatch, LinksMessage, ParsedPage
from manyhands.shared.crawl.scope import Scope
from manyhands.shared.crawl.spec import CrawlSpec, ScopeSpec
from manyhands.shared.crawl.states import CrawlState, UrlState
from manyhands.shared.crawl.store.absence import Absence
from manyhands.shared.crawl.store.model import LeaseLost, NewUrl, SeedBatch, Settled
from manyhands.shared.crawl.store.protocol import ShardReader, ShardStore
from manyhands.shared.crawl.store.sqlite.directory import open_reader, open_shard
from manyhands.shared.urls import parse_url, registrable_domain, shard_of_domain
from manyhands.worker.crawl.frontier.admission import (
    LINKS_OF_BATCH,
    SORTED_AT_ONCE,
    Admission,
)
from manyhands.worker.crawl.frontier.live_crawls import LiveCrawl, LiveCrawls
from manyhands.worker.crawl.metrics import CrawlFigures
from manyhands.worker.crawl.shards.store_threads import StoreThreads

SHARDS = 4
CRAWL = 1


def shard_of(url: str) -> int:
    return shard_of_domain(registrable_domain(parse_url(url).host), SHARDS)


def site_in(shard: int) -> str:
    """A site whose domain is of that shard."""
    for number in range(1000):
        url = f"http://site{number}.example/"
        if shard_of(url) == shard:
            return url
    raise AssertionError


HERE, THERE = site_in(0), site_in(1)
# Of a shard that another process owns.
ELSEWHERE = site_in(3)


def parsed_page(url: str, links: Sequence[str]) -> ParsedPage:
    return ParsedPage(CRAWL, page_key(parse_url(url)).hex(), url, 0, list(links), "")


class Bench:
    """A admission over two owned shards of four."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = StoreThreads(
            lambda: 0.05, gather_s=0.01, writers=lambda: 1, places=[Absence("")]
        )
        self.crawls = LiveCrawls()
        self.owned: dict[int, object] = {0: None, 1: None}
        self.told: list[tuple[int, list[str]]] = []
        self.outgoing_told: list[set[int]] = []
        self.admission = Admission(
            self.store, self.crawls, self.owned, CrawlFigures(), self._told_new, self._told_outgoing
        )
        self.admission.shards = SHARDS
        spec = CrawlSpec(contact="me@example.org", scope=ScopeSpec(within="anywhere"))
        scope = Scope(spec.scope, Exclusions.parse([]))
        self.crawls.by_id[CRAWL] = LiveCrawl(CRAWL, spec, CrawlState.RUNNING, scope, "Manyhands")

    async def open(self) -> None:
        for shard in self.owned:
            await self.store.open(shard, partial(open_shard, self.directory, 0, shard, 1, 0.0))

    def reader(self, shard: int) -> ShardReader:
        reader = open_reader(self.directory, 0, shard)
        assert reader is not None
        return reader

    def urls(self, shard: int, state: UrlState = UrlState.QUEUED) -> list[str]:
        return [row.url for row in self.reader(shard).urls(CRAWL, state, 0, 100)]

    async def fetched(self, url: str) -> None:
        """As if it had been fetched, and its parse job pushed."""
        await self.admission.seeds(shard_of(url), [SeedBatch(1, CRAWL, [url])])

        def go_on(store: ShardStore) -> None:
            (domain,) = store.take_domains(10.0**10, 10)
            (claimed,) = store.claim(domain.origins[0].id, CRAWL, 10.0**10, 10)
            store.settle([Settled(claimed.id, UrlState.PARSING, 200)], 1.0)

        await self.store.change(shard_of(url), go_on)

    async def parsed(self, url: str, links: Sequence[str]) -> list[ParsedPage]:
        return await self.admission.parsed([parsed_page(url, links)])

    def _told_new(self, shard: int, urls: Sequence[NewUrl]) -> None:
        self.told.append((shard, [url.url for url in urls]))

    def _told_outgoing(self, sources: Collection[int]) -> None:
        self.outgoing_told.append(set(sources))


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path)
    await bench.open()
    yield bench
    await bench.store.stop()


async def test_seeds_are_queued(bench: Bench) -> None:
    await bench.admission.seeds(0, [SeedBatch(1, CRAWL, [HERE, HERE + "a", HERE])])

    assert bench.urls(0) == [HERE, HERE + "a"]
    assert bench.told[0][0] == 0


async def test_a_parsed_page_is_done_and_its_links_are_where_they_belong(bench: Bench) -> None:
    await bench.fetched(HERE)

    await bench.parsed(HERE, [HERE + "x", THERE + "y", ELSEWHERE + "z"])

    assert bench.urls(0, UrlState.DONE) == [HERE]
    assert bench.urls(0) == [HERE + "x"]
    assert bench.urls(1) == [THERE + "y"]
    (batch,) = await bench.store.change(0, lambda store: store.outgoing({}, 10))
    assert (batch.target, batch.sequence) == (3, 1)
    assert ELSEWHERE.encode() + b"z" in batch.payload
    assert bench.outgoing_told == [{0}]


async def test_a_repeat_sends_nothing_twice(bench: Bench) -> None:
    await bench.fetched(HERE)
    await bench.parsed(HERE, [HERE + "x", ELSEWHERE + "z"])

    await bench.parsed(HERE, [HERE + "x", ELSEWHERE + "z"])

    assert len(await bench.store.change(0, lambda store: store.outgoing({}, 10))) == 1
    counters = bench.reader(0).counters(CRAWL)
    assert (counters["done"], counters["queued"], counters["admitted"]) == (1, 1, 2)


async def test_a_page_that_was_cut_is_counted_once_by_what_cut_it(bench: Bench) -> None:
    await bench.fetched(HERE)
    page = parsed_page(HERE, [HERE + "x"])._replace(cuts=(Cut.PARSE_LIMIT, Cut.NESTING, "new"))

    await bench.admission.parsed([page])
    await bench.admission.parsed([page])

    counters = bench.reader(0).counters(CRAWL)
    assert (counters["cut_by_parse_limit"], counters["cut_by_nesting"]) == (1, 1)
    assert not any(name.endswith("new") for name in counters)


async def test_a_page_is_not_done_when_a_shard_of_its_links_is_lost(
    bench: Bench, tmp_path: Path
) -> None:
    await bench.fetched(HERE)
    open_shard(tmp_path, 0, 1, 2, 0.0).close()

    (given_back,) = await bench.parsed(HERE, [THERE + "y"])

    assert given_back.url == HERE
    assert bench.urls(0, UrlState.PARSING) == [HERE]


async def test_pages_of_shards_that_are_not_ours_are_given_back(
    bench: Bench, tmp_path: Path
) -> None:
    await bench.fetched(HERE)
    await bench.fetched(THERE)
    open_shard(tmp_path, 0, 1, 2, 0.0).close()
    pages = [parsed_page(url, [HERE + "x"]) for url in (HERE, THERE, ELSEWHERE)]

    # One that was lost a moment ago, and one that never was here.
    given_back = await bench.admission.parsed([pages[0], *pages[2:]])
    assert [page.url for page in given_back] == [ELSEWHERE]
    given_back = await bench.admission.parsed([parsed_page(THERE, [])])
    assert [page.url for page in given_back] == [THERE]
    assert bench.urls(0, UrlState.DONE) == [HERE]
    assert bench.urls(1, UrlState.PARSING) == [THERE]


async def test_pages_that_come_together_end_together(bench: Bench) -> None:
    await bench.fetched(HERE)
    await bench.fetched(THERE)

    given_back = await bench.admission.parsed(
        [
            parsed_page(HERE, [HERE + "x", THERE + "x", ELSEWHERE + "x"]),
            parsed_page(THERE, [HERE + "x", THERE + "x", ELSEWHERE + "x", ELSEWHERE + "y"]),
        ]
    )

    assert given_back == []
    assert (bench.urls(0, UrlState.DONE), bench.urls(0)) == ([HERE], [HERE + "x"])
    assert (bench.urls(1, UrlState.DONE), bench.urls(1)) == ([THERE], [THERE + "x"])
    for shard in (0, 1):
        (batch,) = await bench.store.change(shard, lambda store: store.outgoing({}, 10))
        assert (batch.target, batch.payload.count(b"http")) == (3, shard + 1)


async def test_many_links_for_another_shard_go_in_parts(bench: Bench) -> None:
    await bench.fetched(HERE)

    await bench.parsed(HERE, [f"{ELSEWHERE}{number}" for number in range(LINKS_OF_BATCH + 1)])

    batches = await bench.store.change(0, lambda store: store.outgoing({}, 10))
    assert [batch.payload.count(b"http") for batch in batches] == [LINKS_OF_BATCH, 1]


async def test_links_from_another_shard_are_taken_once(bench: Bench) -> None:
    message = LinksMessage(
        generation=0,
        target=0,
        batches=[LinksBatch(3, 1, CRAWL, [(HERE + "n", 2, 0)])],
    )

    await bench.admission.links(message)
    await bench.admission.links(message)

    assert bench.urls(0) == [HERE + "n"]
    assert bench.reader(0).received_from(3) == 1
    assert bench.reader(0).counters(CRAWL)["admitted"] == 1


async def test_messages_of_links_that_come_together_are_one_change(bench: Bench) -> None:
    def message(sequence: int, page: str) -> LinksMessage:
        batch = LinksBatch(3, sequence, CRAWL, [(HERE + page, 2, 0)])
        return LinksMessage(generation=0, target=0, batches=[batch])

    before = bench.reader(0).counters(CRAWL)["changes"]
    # The second of number 1 is a repeat of the first, whatever it says.
    messages = [message(1, "a"), message(2, "b"), message(1, "c")]
    await asyncio.gather(*map(bench.admission.links, messages))

    counters = bench.reader(0).counters(CRAWL)
    assert sorted(bench.urls(0)) == [HERE + "a", HERE + "b"]
    assert (counters["admitted"], counters["changes"] - before) == (2, 1)
    assert bench.reader(0).received_from(3) == 2


async def test_links_of_an_older_layout_are_left_to_their_sender(bench: Bench) -> None:
    bench.admission.generation = 1

    await bench.admission.links(
        LinksMessage(
            generation=0, target=0, batches=[LinksBatch(3, 1, CRAWL, [(HERE + "n", 2, 0)])]
        )
    )

    assert bench.urls(0) == []


async def test_links_known_to_be_in_the_store_are_not_asked_for_again(bench: Bench) -> None:
    await bench.fetched(HERE)
    await bench.parsed(HERE, [HERE + "x"])
    bench.told.clear()

    await bench.parsed(HERE, [HERE + "x"])

    assert bench.told == []


async def test_what_a_robots_txt_names_is_taken_like_links_of_a_seed(bench: Bench) -> None:
    urls = [HERE + "s.xml", THERE + "s.xml", ELSEWHERE + "s.xml"]
    crawl = bench.crawls.by_id[CRAWL]

    await bench.admission.named(0, crawl, urls, refused=2)

    assert (bench.urls(0), bench.urls(1)) == (urls[:1], urls[1:2])
    (batch,) = await bench.store.change(0, lambda store: store.outgoing({}, 10))
    assert batch.payload == f'[["{urls[2]}",1,0]]'.encode()
    counters = bench.reader(0).counters(CRAWL)
    assert (counters["links"], counters["sitemap_refused"]) == (3, 2)


async def test_what_a_robots_txt_names_is_not_lost_with_the_shard(bench: Bench) -> None:
    open_shard(bench.directory, 0, 0, 2, 0.0).close()
    with pytest.raises(LeaseLost):
        await bench.admission.named(0, bench.crawls.by_id[CRAWL], [HERE + "s.xml"], refused=0)


async def test_the_links_of_a_full_sitemap_are_all_taken(bench: Bench) -> None:
    await bench.fetched(HERE)
    links = [f"{HERE}{number}" for number in range(2 * SORTED_AT_ONCE + 1)]
    page = parsed_page(HERE, links)._replace(counts=(("sitemaps", 1), ("unheard of", 1)))

    assert await bench.admission.parsed([page]) == []

    counters = bench.reader(0).counters(CRAWL)
    assert counters["queued"] == counters["links"] == len(links)
    assert counters["sitemaps"] == 1
    assert "unheard of" not in counters
