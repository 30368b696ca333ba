"""The domains that are in memory: taken from the stores when they are due, given up when they have
nothing to fetch for a while. However many wait in the stores, these are bounded."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count
from math import inf

from manyhands.shared.crawl.store import clock
from manyhands.shared.crawl.store.model import ClaimedUrl, NewUrl, StoredDomain
from manyhands.shared.crawl.store.protocol import ShardStore
from manyhands.shared.logs import get_logger
from manyhands.worker.crawl.fetching import verdicts as endings
from manyhands.worker.crawl.fetching.settling import Settling, StoreFailed
from manyhands.worker.crawl.frontier.hosts import Domain, Origin, OwnedShard
from manyhands.worker.crawl.frontier.live_crawls import LiveCrawl, LiveCrawls
from manyhands.worker.crawl.frontier.loading import (
    SOON_S,
    Claims,
    Hopeless,
    LoadedDomain,
    claim,
    end_hopeless,
    load_due,
    load_one,
)
from manyhands.worker.crawl.frontier.schedule import Schedule
from manyhands.worker.crawl.politeness.delays import OriginState
from manyhands.worker.crawl.shards.store_thread import StoreThread
from manyhands.worker.crawl.tasks import Tasks

MOST_ORIGINS = 20_000
DOMAINS_AT_ONCE = 500
# URLs that are claimed of one origin at a time: what it needs in about so many seconds.
CLAIM_FOR_S = 2.0
FEWEST_CLAIMED = 2
MOST_CLAIMED = 32
LEAVE_LOOK_S = 0.02
HOPELESS_LOOK_S = 1.0


class WorkingSet:
    """State: the shards that are open, the origins by their handle, and `ready`, which knows whose
    turn it is. `wake` is called when something may be requested that could not before."""

    def __init__(
        self,
        store: StoreThread,
        crawls: LiveCrawls,
        settling: Settling,
        tasks: Tasks,
        store_failed: StoreFailed,
        wake: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._store = store
        self._crawls = crawls
        self._settling = settling
        self._tasks = tasks
        self._store_failed = store_failed
        self._wake = wake
        self._shards: dict[int, OwnedShard] = {}
        self._handles = count(1)
        self._log = get_logger("crawl")
        self.origins: dict[int, Origin] = {}
        self.ready = Schedule()

    # Shards

    def shard_opened(self, shard: OwnedShard) -> None:
        self._shards[shard.number] = shard

    def forget(self, shard: OwnedShard) -> None:
        """It has another owner, or its store fails: what is here of it is of no use any more."""
        self._shards.pop(shard.number, None)
        for domain in list(shard.domains.values()):
            self._drop_from_memory(domain)

    async def leave(self, shard: OwnedShard) -> None:
        """Begin nothing new there, wait for what is in flight, and write everything back."""
        shard.is_leaving = True
        while shard.is_busy and shard.number in self._shards:  # noqa: ASYNC110 - many end it
            await asyncio.sleep(LEAVE_LOOK_S)
        domains = list(shard.domains.values())
        kept = [(domain.id, self._wall(domain.next_at), domain.delay_s) for domain in domains]
        claimed = [
            endings.put_off(url)
            for domain in domains
            for origin in domain.origins.values()
            for url in origin.urls
        ]
        for domain in domains:
            self._drop_from_memory(domain)

        def write_back(store: ShardStore) -> None:
            store.settle(claimed, clock.now())
            for domain_id, next_at, delay_s in kept:
                store.put_domain(domain_id, next_at, delay_s)

        await self._store.change(shard.number, write_back)
        self._shards.pop(shard.number, None)

    # What comes in

    async def load(self, shard: OwnedShard) -> None:
        """Take in domains that are due."""
        crawls = self._crawls.running
        room = MOST_ORIGINS - len(self.origins)
        if shard.is_loading or shard.is_leaving or not crawls or room <= 0:
            return
        shard.is_loading = True
        try:
            due = partial(
                load_due,
                crawls=crawls,
                now=clock.now(),
                domains=min(room, DOMAINS_AT_ONCE),
                urls_each=FEWEST_CLAIMED,
            )
            hopeless = self._hopeless_if_time(shard)
            loaded, found = await self._store.change(
                shard.number, lambda store: (due(store), hopeless and hopeless(store))
            )
        except Exception as error:
            self._store_failed(shard, error)
            return
        finally:
            shard.is_loading = False
        if found is not None:
            self._told_hopeless(shard, found)
        for each in loaded:
            self._take_in(shard, each)
        if loaded:
            self._wake()

    def _hopeless_if_time(self, shard: OwnedShard) -> Callable[[ShardStore], Hopeless] | None:
        """Now and then: a look at the origins that are left alone, for crawls without patience."""
        now = self._loop.time()
        if now < shard.hopeless_look_at:
            return None
        shard.hopeless_look_at = now + HOPELESS_LOOK_S
        after = max(shard.hopeless_looked_to, clock.now())
        return partial(end_hopeless, patiences=self._crawls.patiences, after=after)

    def _told_hopeless(self, shard: OwnedShard, found: Hopeless) -> None:
        shard.hopeless_looked_to = found.looked_to
        for origin, reason, urls in found.given_up:
            self._log.info("a host is given up", origin=origin, reason=reason, urls=urls)

    def told_new(self, number: int, urls: Sequence[NewUrl]) -> None:
        """URLs were admitted. Those of domains that are here are looked for at once; the other
        domains come with a load."""
        shard = self._shards.get(number)
        if shard is None or shard.is_leaving:
            return
        is_other = False
        unknown = set()
        for url in urls:
            domain = shard.domains.get(url.domain)
            if domain is None:
                is_other = True
            elif (origin := domain.origins.get(url.origin)) is None:
                unknown.add(url.domain)
            elif origin.is_claiming or not origin.urls:
                self.refill(origin)
        for name in unknown:
            self._tasks.spawn(self._load_one(shard, name))
        if is_other and not shard.is_loading:
            self._tasks.spawn(self.load(shard))

    def queued_again(self, origin: Origin) -> None:
        """One of its URLs is back in the store, for now or for later. The origin may have left the
        memory since, and its domain, and both may have come back."""
        shard = origin.domain.shard
        domain = shard.domains.get(origin.domain.name)
        if domain is None:
            return  # it comes with a load
        here = domain.origins.get(origin.name)
        if here is None:
            self._tasks.spawn(self._load_one(shard, domain.name))
        elif here.is_claiming or not here.urls:
            self.refill(here)

    def crawls_stopped(self, stopped: Iterable[int]) -> None:
        """URLs of crawls that no longer run go back to where they came from."""
        gone = set(stopped)
        if not gone:
            return
        for origin in list(self.origins.values()):
            back = [url for url in origin.urls if url.crawl in gone]
            for url in back:
                origin.urls.remove(url)
            self._give_back(origin.domain.shard, back)

    # Turns

    def request_ended(self, origin: Origin, delay_s: float | None) -> None:
        """`delay_s` is None when there was no request after all."""
        domain = origin.domain
        origin.in_flight -= 1
        domain.in_flight -= 1
        now = self._loop.time()
        if delay_s is not None:
            self._keep_delay(domain, delay_s)
            domain.next_at = max(domain.next_at, now + delay_s)
        self.ready.done(domain.name, origin.handle, domain.next_at)
        if not origin.urls:
            self.ready.remove_origin(origin.handle)
            self.refill(origin)
        if now >= domain.look_at:
            domain.look_at = inf
            self._tasks.spawn(self._load_one(domain.shard, domain.name))
        self._release_if_empty(domain, 0.0)
        self._wake()

    def _keep_delay(self, domain: Domain, delay_s: float) -> None:
        """The store must know it before the next request: should this process die, the next owner
        waits for so long."""
        if delay_s != domain.delay_s:
            domain.delay_s = delay_s
            next_at = self._wall(domain.next_at) + delay_s
            self._settling.tell(
                domain.shard, lambda store: store.keep_domain(domain.id, next_at, delay_s)
            )

    def put_off(self, origin: Origin, until: float) -> None:
        """Until then (wall clock) nothing is asked of it; the store remembers, too. Crawls that do
        not wait for so long give it up with the next look at those."""
        shard = origin.domain.shard
        notes = origin.state.to_bytes()
        self._settling.tell(shard, lambda store: store.keep_origin(origin.id, until, notes))
        if origin.handle not in self.origins:
            return
        # What waits for it waits in the store, where everybody can see it.
        self._give_back(shard, origin.urls)
        origin.urls.clear()
        self._drop_origin(origin, until)

    def refill(self, origin: Origin) -> None:
        if origin.is_claiming:
            origin.has_news = True
        elif origin.handle in self.origins:
            origin.is_claiming = True
            origin.has_news = False
            self._tasks.spawn(self._claim_more(origin))

    async def look_for_forgotten(self, shard: OwnedShard) -> int:
        """Domains that are taken and have URLs waiting that nothing here knows of, twice in a row.
        They are taken in again; returned is for how many of them that was needed."""
        try:
            taken = await self._store.change(shard.number, lambda store: store.taken_domains())
        except Exception as error:
            self._store_failed(shard, error)
            return 0
        suspects = {stored.name for stored in taken if self._seems_forgotten(shard, stored)}
        forgotten, shard.suspects = suspects & shard.suspects, suspects
        found = 0
        for stored in taken:
            if stored.name not in forgotten:
                continue
            if stored.name in shard.domains:
                found += await self._load_one(shard, stored.name)
            else:
                self._settling.tell(shard, partial(_put_back, stored=stored))
                found += 1
        return found

    def _seems_forgotten(self, shard: OwnedShard, stored: StoredDomain) -> bool:
        domain = shard.domains.get(stored.name)
        if domain is None:
            return True
        for each in stored.origins:
            origin = domain.origins.get(each.origin)
            is_served = origin is not None and self._is_served(origin)
            if not is_served and each.ready_at <= clock.now():
                return True
        return False

    def _is_served(self, origin: Origin) -> bool:
        """Its turn comes, or something is under way that looks for more of it."""
        return self.ready.has_origin(origin.handle) or not origin.is_idle

    def a_crawl_of(self, origin: Origin) -> LiveCrawl | None:
        for url in origin.urls:
            if (crawl := self._crawls.by_id.get(url.crawl)) is not None:
                return crawl
        return None

    # Inside

    async def _claim_more(self, origin: Origin) -> None:
        shard = origin.domain.shard
        call = partial(
            claim,
            origin_id=origin.id,
            crawls=self._crawls.running,
            now=clock.now(),
            most=_claims_of(origin.domain),
        )
        try:
            claims = await self._store.change(shard.number, call)
        except Exception as error:
            self._store_failed(shard, error)
            return
        finally:
            origin.is_claiming = False
        if origin.handle not in self.origins:
            # Given up meanwhile.
            self._give_back(shard, claims.urls)
        elif origin.has_news and not (claims.urls or origin.urls):
            self.refill(origin)
        elif claims.urls or origin.urls or _is_soon(claims.due_at):
            self._place(origin, claims)
            self._wake()
        elif not origin.in_flight:
            # Else the page that is under way may bring more, and its end looks again.
            self._drop_origin(origin, claims.due_at)

    async def _load_one(self, shard: OwnedShard, name: str) -> bool:
        """Take in those origins of a domain that are not here. Whether there was something to
        fetch."""
        domain = shard.domains.get(name)
        crawls = self._crawls.running
        if domain is None or not crawls:
            return False
        call = partial(
            load_one,
            name=name,
            crawls=crawls,
            now=clock.now(),
            urls_each=_claims_of(domain),
            known={each.id for each in domain.origins.values() if self._is_served(each)},
        )
        try:
            loaded = await self._store.change(shard.number, call)
        except Exception as error:
            self._store_failed(shard, error)
            return False
        if loaded is None:
            return False
        if name in shard.domains:
            self._take_in(shard, loaded)
            self._wake()
            return any(claims.urls for claims in loaded.claims.values())
        # Given up meanwhile.
        for claims in loaded.claims.values():
            self._give_back(shard, claims.urls)
        self._put_domain(domain, 0.0)
        return False

    def _take_in(self, shard: OwnedShard, loaded: LoadedDomain) -> None:
        stored = loaded.domain
        if self._shards.get(shard.number) is not shard:
            return
        domain = shard.domains.get(stored.name)
        if domain is None:
            next_at = self._loop_time(stored.next_at)
            domain = Domain(stored.id, stored.name, shard, stored.delay_s, next_at)
            shard.domains[stored.name] = domain
        for each in stored.origins:
            claims = loaded.claims.get(each.id)
            if claims is None:
                continue
            if not (claims.urls or _is_soon(claims.due_at)):
                self._look_again(domain, claims.due_at)
                continue
            origin = domain.origins.get(each.origin)
            if origin is None:
                state = OriginState.from_bytes(each.notes)
                origin = Origin(next(self._handles), each.id, each.origin, domain, state)
                domain.origins[each.origin] = origin
                self.origins[origin.handle] = origin
            self._place(origin, claims, each.ready_at)

    def _place(self, origin: Origin, claims: Claims, ready_at: float = 0.0) -> None:
        """Put it where its next URL is taken from, with its time."""
        domain = origin.domain
        origin.urls.extend(claims.urls)
        if not origin.urls and claims.due_at is not None:
            ready_at = max(ready_at, claims.due_at)
        at = self._loop_time(max(ready_at, origin.state.blocked_until))
        # Anew: one that is there would keep its time if that is later, and its URLs may be newer.
        self.ready.remove_origin(origin.handle)
        self.ready.add_origin(domain.name, origin.handle, at, domain.next_at)
        if crawl := self.a_crawl_of(origin):
            self.ready.set_connections(domain.name, crawl.spec.politeness.connections_per_host)

    def place_again(self, origin: Origin) -> None:
        """Its turn may come sooner than was said."""
        self._place(origin, Claims([], None))

    def _give_back(self, shard: OwnedShard, urls: Iterable[ClaimedUrl]) -> None:
        """To the store, as they were."""
        for url in urls:
            self._settling.settle(shard, endings.put_off(url))

    def _drop_origin(self, origin: Origin, due_at: float | None) -> None:
        """It has nothing to fetch now; with its last origin the domain leaves the memory, too."""
        domain = origin.domain
        self.origins.pop(origin.handle, None)
        domain.origins.pop(origin.name, None)
        self.ready.remove_origin(origin.handle)
        self._look_again(domain, due_at)
        self._release_if_empty(domain, due_at or 0.0)

    def _look_again(self, domain: Domain, due_at: float | None) -> None:
        """An origin of it is due then (wall clock; None: never) and not in memory."""
        if due_at is not None:
            domain.look_at = min(domain.look_at, self._loop_time(due_at))

    def _release_if_empty(self, domain: Domain, due_at: float) -> None:
        is_here = domain.shard.domains.get(domain.name) is domain
        if domain.origins or domain.in_flight or not is_here:
            return
        del domain.shard.domains[domain.name]
        self.ready.drop_domain(domain.name)
        # Other hosts of it may get URLs before then.
        self._put_domain(domain, min(due_at, clock.now() + SOON_S))

    def _put_domain(self, domain: Domain, due_at: float) -> None:
        next_at, delay_s = max(self._wall(domain.next_at), due_at), domain.delay_s
        self._settling.tell(
            domain.shard, lambda store: store.put_domain(domain.id, next_at, delay_s)
        )

    def _drop_from_memory(self, domain: Domain) -> None:
        for origin in domain.origins.values():
            self.origins.pop(origin.handle, None)
        self.ready.drop_domain(domain.name)
        domain.shard.domains.pop(domain.name, None)

    # The store's times are wall-clock, ours the loop's.

    def _wall(self, loop_time: float) -> float:
        return clock.now() + loop_time - self._loop.time()

    def _loop_time(self, wall: float) -> float:
        return self._loop.time() + wall - clock.now()


def _claims_of(domain: Domain) -> int:
    if domain.delay_s <= 0:
        return MOST_CLAIMED
    return max(FEWEST_CLAIMED, min(MOST_CLAIMED, int(CLAIM_FOR_S / domain.delay_s)))


def _is_soon(due_at: float | None) -> bool:
    return due_at is not None and due_at - clock.now() <= SOON_S


def _put_back(store: ShardStore, stored: StoredDomain) -> None:
    store.put_domain(stored.id, stored.next_at, stored.delay_s)
