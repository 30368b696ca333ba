"""Where URLs come in: seeds, links of parsed pages, links from other shards, redirects.

A page is done only when its links are safe. Those of shards that this process owns are admitted
first; those of others are stored beside the page, in the transaction that makes it done. So a crash
at any point repeats work and loses none.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import orjson

from manyhands.shared.crawl.canonical import origin_of
from manyhands.shared.crawl.cuts import CUT_COUNTERS
from manyhands.shared.crawl.messages import Link, LinksMessage, ParsedPage
from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store import clock
from manyhands.shared.crawl.store.model import (
    PAGE_COUNTERS,
    ClaimedUrl,
    Layout,
    LeaseLost,
    NewUrl,
    SeedBatch,
    Settled,
    Unparsed,
)
from manyhands.shared.crawl.store.new_urls import new_url
from manyhands.shared.crawl.store.protocol import ShardStore
from manyhands.shared.urls import (
    HOSTS_REMEMBERED,
    Url,
    parse_url,
    registrable_domain,
    shard_of_url,
)
from manyhands.worker.crawl.frontier.links import LinkSorter, SortedLinks, Sorting, as_links
from manyhands.worker.crawl.frontier.live_crawls import LiveCrawl, LiveCrawls
from manyhands.worker.crawl.metrics import CrawlFigures
from manyhands.worker.crawl.shards.store_threads import StoreThreads

# Of one message to another shard.
LINKS_OF_BATCH = 1000
# Those of a page; a sitemap has more, and others have their turn in between.
SORTED_AT_ONCE = 6000

# The shard, and the URLs that may be new there.
Told = Callable[[int, Sequence[NewUrl]], None]


class Ending(NamedTuple):
    """A URL that ends, a parsed page by its key, one that came to nothing or a redirect, and its
    links, which must be stored by then; None: nothing ends. `links` are for shards of other
    processes; `mine` are for the URL's own shard."""

    crawl: int
    host_limit: int | None
    ends: bytes | Unparsed | Settled | None
    mine: list[NewUrl]
    links: SortedLinks


class Coming(NamedTuple):
    """URLs that a page or a seed file brings to a shard that is not the page's own."""

    crawl: int
    host_limit: int | None
    urls: list[NewUrl]


class Received(NamedTuple):
    """A batch of links from another shard, and those that may be new here."""

    source: int
    sequence: int
    coming: Coming


class Admission:
    """State: what was last admitted. `owned` are the owner's open shards; `told_new` is called with
    what was admitted, `told_outgoing` with the shards whose links wait for others."""

    def __init__(
        self,
        store: StoreThreads,
        crawls: LiveCrawls,
        owned: Mapping[int, object],
        figures: CrawlFigures,
        told_new: Told,
        told_outgoing: Callable[[Collection[int]], None],
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

    def laid_out(self, layout: Layout) -> None:
        self.shards = layout.shards
        self.generation = layout.generation

    def shard_of(self, url: str) -> int:
        """Of a canonical URL."""
        return _shard_of_origin(origin_of(url), self.shards)

    async def parsed(self, pages: Sequence[ParsedPage]) -> list[ParsedPage]:
        """Returns those that could not be ended because their shard is not owned here (any
        more)."""
        elsewhere = []
        here: list[tuple[int, ParsedPage]] = []
        for page in pages:
            shard = self.shard_of(page.url)
            if shard in self._owned:
                here.append((shard, page))
            else:
                elsewhere.append(page)
        links = await self._links_of([page for _, page in here])
        try:
            await self._admit_local(
                (shard, page.crawl, of_page)
                for (shard, page), of_page in zip(here, links, strict=True)
            )
        except LeaseLost:
            return list(pages)
        now = clock.now()
        ended = await self._finish(
            [
                (shard, self._ending(shard, page.crawl, _ends(page, now), of_page))
                for (shard, page), of_page in zip(here, links, strict=True)
            ]
        )
        lost = [page for (_, page), has_ended in zip(here, ended, strict=True) if not has_ended]
        return elsewhere + lost

    async def redirected(
        self, shard: int, crawl: LiveCrawl, claimed: ClaimedUrl, target: Url, status: int
    ) -> None:
        """The target is a separate URL of the same depth."""
        sorting = self._sorting(crawl)
        redirects = claimed.redirects + 1
        links = sorting.sort([target.text], claimed.depth, redirects, claimed.note)
        settled = Settled(claimed.id, UrlState.REDIRECTED, status, attempts=claimed.attempts)
        await self._admit_local([(shard, crawl.id, links)])
        await self._finish([(shard, self._ending(shard, crawl.id, settled, links))])

    async def named(self, shard: int, crawl: LiveCrawl, urls: Sequence[str], refused: int) -> None:
        """By the robots.txt of a host of the shard: like links of a seed. `refused` counts what is
        no URL. Raises LeaseLost."""
        links = self._sorting(crawl).sort(urls, 1, 0)
        links.counts["sitemap_refused"] += refused
        await self._admit_local([(shard, crawl.id, links)])
        [has_ended] = await self._finish([(shard, self._ending(shard, crawl.id, None, links))])
        if not has_ended:
            raise LeaseLost(f"shard {shard} is not owned here")

    async def links(self, message: LinksMessage) -> None:
        """From pages of other shards. Raises LeaseLost when the target is not owned here."""
        if message.generation != self.generation:
            return  # of an old layout; the sender still has it, and sends it again
        shard = self._require(message.target)
        received = []
        for batch in message.batches:
            crawl = self._crawls.by_id.get(batch.crawl)
            urls: list[NewUrl] = []
            if crawl is not None:
                sorting = self._sorting(crawl)
                for url, depth, redirects, *note in batch.links:
                    found = sorting.sort([url], depth, redirects, *note)
                    urls += found.by_shard.get(shard, [])
            coming = Coming(batch.crawl, self._host_limit(batch.crawl), urls)
            received.append(Received(batch.source, batch.sequence, coming))
        await self._store.change_with(shard, _receive_all, received)
        for one in received:
            self._admitted(shard, one.coming.crawl, one.coming.urls)

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

    async def _links_of(self, pages: Sequence[ParsedPage]) -> list[SortedLinks]:
        sortings: dict[int, Sorting] = {}
        links = []
        for page in pages:
            self._figures.links += len(page.links) + len(page.noted)
            sorting = sortings.get(page.crawl)
            if sorting is None:
                crawl = self._crawls.by_id.get(page.crawl)
                if crawl is None:
                    links.append(SortedLinks())
                    continue
                sorting = sortings[page.crawl] = self._sorting(crawl)
            noted = [sorting.sort([url], page.depth + 1, 0, note) for url, note in page.noted]
            links.append(sorting.sort(page.links[:SORTED_AT_ONCE], page.depth + 1, 0))
            if noted:
                # They come first: a URL of both has its note.
                links[-1] = _joined([*noted, links[-1]])
            for start in range(SORTED_AT_ONCE, len(page.links), SORTED_AT_ONCE):
                await asyncio.sleep(0)
                more = page.links[start : start + SORTED_AT_ONCE]
                links[-1].add(sorting.sort(more, page.depth + 1, 0))
            if page.cuts or page.counts:
                self._count_page(page, links[-1])
        return links

    def _count_page(self, page: ParsedPage, links: SortedLinks) -> None:
        """With its links, so that it is counted once, when the page ends."""
        for name, number in page.counts:
            if name in PAGE_COUNTERS:
                links.counts[name] += number
        for cut in page.cuts:
            if cut in CUT_COUNTERS:
                links.counts[CUT_COUNTERS[cut]] += 1
                self._figures.cuts[cut] += 1

    async def _admit_local(self, found: Iterable[tuple[int, int, SortedLinks]]) -> None:
        """The links that are of other shards of this process than their page's, whose shard and
        crawl are given."""
        by_place: dict[tuple[int, int], list[NewUrl]] = {}
        for own, crawl, links in found:
            for shard in [to for to in links.by_shard if to != own and to in self._owned]:
                by_place.setdefault((shard, crawl), []).extend(links.by_shard.pop(shard))
        if by_place:
            await asyncio.gather(
                *(self._admit(shard, crawl, urls) for (shard, crawl), urls in by_place.items())
            )

    def _ending(
        self, shard: int, crawl: int, ends: bytes | Unparsed | Settled | None, links: SortedLinks
    ) -> Ending:
        mine = links.by_shard.pop(shard, [])
        return Ending(crawl, self._host_limit(crawl), ends, mine, links)

    async def _finish(self, endings: Sequence[tuple[int, Ending]]) -> list[bool]:
        """End them in their shards; False for those whose shard is lost."""
        # The last: what is told of the same pages' requests has come before.
        changes = [
            self._store.change_together(shard, _end, ending, is_last=True)
            for shard, ending in endings
        ]
        if changes:
            # Not gathered: others wait for the same changes, and are not to be cancelled with us.
            await asyncio.wait(set(changes))
        ended = []
        for (shard, ending), change in zip(endings, changes, strict=True):
            error = change.exception()
            if error is not None and not isinstance(error, LeaseLost):
                raise error
            ended.append(error is None)
            if error is None:
                self._admitted(shard, ending.crawl, ending.mine)
                if isinstance(ending.ends, Unparsed) and ending.ends.not_before is not None:
                    self._told_new(shard, [new_url(parse_url(ending.ends.url), 0)])
        if sent := {shard for shard, ending in endings if ending.links.by_shard}:
            self._told_outgoing(sent)
        return ended

    async def _admit(self, shard: int, crawl: int, urls: list[NewUrl]) -> None:
        coming = Coming(crawl, self._host_limit(crawl), urls)
        await self._store.change_with(shard, _admit_all, coming)
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


def _ends(page: ParsedPage, now: float) -> bytes | Unparsed:
    """`now` is the store's clock."""
    key, setback = bytes.fromhex(page.key), page.setback
    if setback is None:
        return key
    after_s = setback.again_after_s
    return Unparsed(
        key,
        page.url,
        setback.status,
        setback.reason,
        setback.detail,
        setback.attempts,
        None if after_s is None else now + after_s,
    )


def _joined(parts: Iterable[SortedLinks]) -> SortedLinks:
    together = SortedLinks()
    for part in parts:
        together.add(part)
    return together


@lru_cache(maxsize=HOSTS_REMEMBERED)
def _shard_of_origin(origin: str, shards: int) -> int:
    return shard_of_url(f"{origin}/", shards)


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


def _admit_all(store: ShardStore, all_coming: list[Coming]) -> list[None]:
    now = clock.now()
    for crawl in {coming.crawl for coming in all_coming}:
        mine = [coming for coming in all_coming if coming.crawl == crawl]
        urls = [url for coming in mine for url in coming.urls]
        _admit(store, crawl, urls, now, mine[0].host_limit)
    return [None] * len(all_coming)


def _receive_all(store: ShardStore, messages: list[list[Received]]) -> list[None]:
    received = [one for message in messages for one in message]
    new = store.receive([(one.source, one.sequence) for one in received])
    coming = [received[place].coming for place in new]
    _admit_all(store, [one for one in coming if one.urls])
    return [None] * len(messages)


def _end(store: ShardStore, endings: list[Ending]) -> None:
    now = clock.now()
    for crawl in {ending.crawl for ending in endings}:
        mine = [ending for ending in endings if ending.crawl == crawl]
        found = [url for ending in mine for url in ending.mine]
        if found:
            _admit(store, crawl, found, now, mine[0].host_limit)
        counts: Counter[str] = Counter()
        outgoing: dict[int, list[Link]] = {}
        for ending in _ended_now(store, crawl, mine, now):
            counts.update(ending.links.counts)
            for to, urls in ending.links.by_shard.items():
                outgoing.setdefault(to, []).extend(as_links(urls))
        store.count(crawl, counts)
        store.send(
            crawl,
            [
                (to, orjson.dumps(links[start : start + LINKS_OF_BATCH]))
                for to, links in outgoing.items()
                for start in range(0, len(links), LINKS_OF_BATCH)
            ],
        )


def _ended_now(
    store: ShardStore, crawl: int, endings: Sequence[Ending], now: float
) -> list[Ending]:
    """End them; which had not ended before."""
    settled = [one.ends for one in endings if isinstance(one.ends, Settled)]
    store.settle(settled, now)
    ended = [one for one in endings if one.ends is None or isinstance(one.ends, Settled)]
    parsed = [one for one in endings if isinstance(one.ends, bytes)]
    keys = [one.ends for one in parsed if isinstance(one.ends, bytes)]
    ended += [parsed[place] for place in store.parsed(crawl, keys, now)]
    unparsed = [one for one in endings if isinstance(one.ends, Unparsed)]
    if unparsed:
        nothing = [one.ends for one in unparsed if isinstance(one.ends, Unparsed)]
        ended += [unparsed[place] for place in store.unparsed(crawl, nothing, now)]
    return ended
