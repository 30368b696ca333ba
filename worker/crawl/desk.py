"""Where URLs come in: seeds, links of parsed pages, links from other shards, redirects.

A page is done only when its links are safe. Those of shards that this process owns are admitted
first; those of others are stored beside the page, in the transaction that makes it done. So a crash
at any point repeats work and loses none.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import orjson

from shared.crawl.messages import LinksMessage, ParsedPage
from shared.crawl.states import UrlState
from shared.state.model import ClaimedUrl, LeaseLost, NewUrl, SeedBatch, Settled
from shared.state.protocol import ShardStore
from shared.urls import Url, parse_url, registrable_domain, shard_of_url
from worker.crawl.crawls import LiveCrawl, LiveCrawls
from worker.crawl.figures import CrawlFigures
from worker.crawl.links import Link, LinkSorter, SortedLinks, Sorting, as_links
from worker.crawl.store_thread import StoreThread

# Of one message to another shard.
LINKS_OF_BATCH = 1000

# Ends URLs; which of them had not ended before, by their place.
End = Callable[[ShardStore, float], Iterable[int]]
# The shard, and the URLs that may be new there.
Told = Callable[[int, Sequence[NewUrl]], None]


class Ending(NamedTuple):
    """URLs of one crawl and one shard, and the links of each, that must be safe when it ends."""

    shard: int
    crawl: int
    links: list[SortedLinks]
    end: End


class Desk:
    """State: what was last admitted. `owned` are the owner's open shards;
    `told_new` is told of what was admitted, `told_outgoing` when links wait for others."""

    def __init__(
        self,
        store: StoreThread,
        crawls: LiveCrawls,
        owned: Mapping[int, object],
        figures: CrawlFigures,
        told_new: Told,
        told_outgoing: Callable[[], None],
    ) -> None:
        self._store = store
        self._crawls = crawls
        self._owned = owned
        self._figures = figures
        self._told_new = told_new
        self._told_outgoing = told_outgoing
        self._sorter = LinkSorter()
        self.shards = 1
        self.generation = 0

    def shard_of(self, url: str) -> int:
        return shard_of_url(url, self.shards)

    async def parsed(self, pages: Sequence[ParsedPage]) -> list[ParsedPage]:
        """Gives back those that could not be ended: their shard is not owned here (any more)."""
        elsewhere = []
        together: dict[tuple[int, int], list[ParsedPage]] = {}
        for page in pages:
            shard = self.shard_of(page.url)
            if shard in self._owned:
                together.setdefault((shard, page.crawl), []).append(page)
            else:
                elsewhere.append(page)
        sortings = {
            crawl.id: self._sorting(crawl)
            for crawl in map(self._crawls.by_id.get, {crawl for _, crawl in together})
            if crawl is not None
        }
        endings = [
            self._parsed(shard, crawl, mine, sortings.get(crawl))
            for (shard, crawl), mine in together.items()
        ]
        try:
            await self._admit_local(endings)
        except LeaseLost:
            return list(pages)
        ended = await asyncio.gather(*map(self._finish, endings), return_exceptions=True)
        for mine, result in zip(together.values(), ended, strict=True):
            if isinstance(result, LeaseLost):
                elsewhere += mine
            elif isinstance(result, BaseException):
                raise result
        return elsewhere

    async def redirected(
        self, shard: int, crawl: LiveCrawl, claimed: ClaimedUrl, target: Url, status: int
    ) -> None:
        """The target is a URL of its own, as deep as the one that leads to it."""
        sorting = self._sorting(crawl)
        links = sorting.sort([target.text], claimed.depth, claimed.redirects + 1)
        settled = Settled(claimed.id, UrlState.REDIRECTED, status, attempts=claimed.attempts)

        def end(store: ShardStore, now: float) -> Iterable[int]:
            store.settle([settled], now)
            return (0,)

        ending = Ending(shard, crawl.id, [links], end)
        await self._admit_local([ending])
        await self._finish(ending)

    async def links(self, message: LinksMessage) -> None:
        """From pages of other shards. Raises LeaseLost when the target is not owned here."""
        if message.generation != self.generation:
            return  # of a layout that is gone; the sender has it still, and sends it anew
        shard = self._require(message.target)
        batches = []
        for batch in message.batches:
            crawl = self._crawls.by_id.get(batch.crawl)
            urls: list[NewUrl] = []
            if crawl is not None:
                sorting = self._sorting(crawl)
                for url, depth, redirects in batch.links:
                    urls += sorting.sort([url], depth, redirects).by_shard.get(shard, [])
            batches.append((batch, urls, self._host_limit(batch.crawl)))

        def receive(store: ShardStore) -> None:
            now = time.time()
            for batch, urls, limit in batches:
                if store.receive(batch.source, batch.sequence) and urls:
                    _admit(store, batch.crawl, urls, now, limit)

        await self._store.change(shard, receive)
        for batch, urls, _ in batches:
            self._admitted(shard, batch.crawl, urls)

    async def seeds(
        self, shard: int, batches: Sequence[SeedBatch]
    ) -> dict[int, dict[int, list[str]]]:
        """Of crawls that are known here. Gives back, by crawl and shard, those that belong to
        other shards: they were sorted for a number of shards that is no more."""
        misplaced: dict[int, dict[int, list[str]]] = {}
        self._sorter.seeds_came()
        for batch in batches:
            crawl = self._crawls.by_id[batch.crawl]
            by_shard = self._sorting(crawl).sort(batch.urls, 0, 0).by_shard
            urls = by_shard.pop(shard, [])
            for other, theirs in by_shard.items():
                texts = [url.url for url in theirs]
                misplaced.setdefault(batch.crawl, {}).setdefault(other, []).extend(texts)
            await self._admit(shard, batch.crawl, urls)
        return misplaced

    def _sorting(self, crawl: LiveCrawl) -> Sorting:
        return self._sorter.sorting(crawl, self.shards, self._owned)

    def _host_limit(self, crawl: int) -> int | None:
        live = self._crawls.by_id.get(crawl)
        return live.spec.limits.pages_per_host if live is not None else None

    def _require(self, shard: int) -> int:
        if shard not in self._owned:
            raise LeaseLost(f"shard {shard} is not owned here")
        return shard

    def _parsed(
        self, shard: int, crawl: int, pages: Sequence[ParsedPage], sorting: Sorting | None
    ) -> Ending:
        links = []
        for page in pages:
            self._figures.links += len(page.links)
            links.append(
                sorting.sort(page.links, page.depth + 1, 0)
                if sorting is not None
                else SortedLinks()
            )
        keys = [bytes.fromhex(page.key) for page in pages]
        return Ending(shard, crawl, links, lambda store, now: store.parsed(crawl, keys, now))

    async def _admit_local(self, endings: Iterable[Ending]) -> None:
        """The links that are of other shards of this process."""
        found: dict[tuple[int, int], list[NewUrl]] = {}
        for ending in endings:
            for links in ending.links:
                for shard in [to for to in links.by_shard if to in self._owned]:
                    if shard != ending.shard:
                        urls = links.by_shard.pop(shard)
                        found.setdefault((shard, ending.crawl), []).extend(urls)
        if found:
            await asyncio.gather(
                *(self._admit(shard, crawl, urls) for (shard, crawl), urls in found.items())
            )

    async def _finish(self, ending: Ending) -> None:
        """Together with their links that are of the same shard, and of other processes."""
        shard, crawl, links, end = ending
        mine = [url for each in links for url in each.by_shard.pop(shard, ())]
        limit = self._host_limit(crawl)

        def finish(store: ShardStore) -> None:
            now = time.time()
            if mine:
                _admit(store, crawl, mine, now, limit)
            outgoing: dict[int, list[Link]] = {}
            for place in end(store, now):
                store.count(crawl, links[place].counts)
                for to, urls in links[place].by_shard.items():
                    outgoing.setdefault(to, []).extend(as_links(urls))
            for to, of_shard in outgoing.items():
                for start in range(0, len(of_shard), LINKS_OF_BATCH):
                    batch = of_shard[start : start + LINKS_OF_BATCH]
                    store.send(to, crawl, orjson.dumps(batch))

        await self._store.change_some_time(shard, finish)
        self._admitted(shard, crawl, mine)
        if any(each.by_shard for each in links):
            self._told_outgoing()

    async def _admit(self, shard: int, crawl: int, urls: list[NewUrl]) -> None:
        limit = self._host_limit(crawl)
        await self._store.change(
            shard, lambda store: _admit(store, crawl, urls, time.time(), limit)
        )
        self._admitted(shard, crawl, urls)

    def _admitted(self, shard: int, crawl: int, urls: Sequence[NewUrl]) -> None:
        if urls:
            self._sorter.admitted(crawl, urls)
            self._know_seeds(crawl, urls)
            self._told_new(shard, urls)

    def _know_seeds(self, crawl: int, urls: Sequence[NewUrl]) -> None:
        """At once here; other processes look at the store now and then."""
        live = self._crawls.by_id.get(crawl)
        if live is None or live.seed_names is None:
            return
        hosts = {parse_url(url.url).host for url in urls if url.depth == 0}
        names = hosts | {registrable_domain(host) for host in hosts}
        if not names <= live.seed_names:
            live.seed_names |= names


def _admit(
    store: ShardStore, crawl: int, urls: Sequence[NewUrl], now: float, limit: int | None
) -> None:
    """Nothing but seeds, and where they redirect to, is at depth 0: `example.org` that leads to
    `www.example.org` stands for that host."""
    seeds = [url for url in urls if url.depth == 0]
    if seeds:
        store.admit(crawl, seeds, now, host_limit=limit, are_seeds=True)
    links = [url for url in urls if url.depth] if seeds else urls
    if links:
        store.admit(crawl, links, now, host_limit=limit)
