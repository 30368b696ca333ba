"""The domains in memory. Millions may wait in the stores; here are only those that are due soon,
each with a few claimed URLs.

A domain is loaded when its time comes, refilled with URLs while it has any, and released to its
store when it has had nothing to fetch for a while. At most MOST_ORIGINS origins are held.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf

from manyhands.shared.crawl.messages import NO_CRAWL
from manyhands.shared.crawl.store import clock
from manyhands.shared.crawl.store.model import Claims, NewUrl, StoredDomain
from manyhands.shared.crawl.store.protocol import ShardStore
from manyhands.shared.tasks import Tasks
from manyhands.worker.crawl.frontier.hopeless import EndsHopeless, HopelessOrigins
from manyhands.worker.crawl.frontier.host_notes import HostNotes
from manyhands.worker.crawl.frontier.live_crawls import LiveCrawls
from manyhands.worker.crawl.frontier.loading import (
    NO_CLAIMS,
    SOON_S,
    Hopeless,
    LoadedDomain,
    Named,
    Wanted,
    claim_all,
    has_jobs_in,
    load_due,
    load_named,
)
from manyhands.worker.crawl.frontier.running import Running
from manyhands.worker.crawl.frontier.schedule import Domain, Origin, Request, Schedule
from manyhands.worker.crawl.politeness.delays import Delay, OriginState
from manyhands.worker.crawl.shards.owned import OwnedShard
from manyhands.worker.crawl.shards.settling import StoreFailed
from manyhands.worker.crawl.shards.store_threads import StoreThreads
from manyhands.worker.crawl.wakeup import Wakeup

MOST_ORIGINS = 20_000
DOMAINS_AT_ONCE = 500
# URLs claimed of one origin at a time: what it needs in about this many seconds.
CLAIM_FOR_S = 2.0
FEWEST_CLAIMED = 2
MOST_CLAIMED = 32
LEAVE_LOOK_S = 0.02
NOBODY = Running()


@dataclass(slots=True, eq=False)
class ShardHosts:
    """State: the domains of a shard that are in memory, by name, whether more are being loaded, the
    keys of what was admitted meanwhile to others, and whether it has no fetch job: without a crawl
    there is nothing to load then."""

    shard: OwnedShard
    domains: dict[str, Domain] = field(default_factory=dict)
    is_loading: bool = False
    news: set[bytes] = field(default_factory=set)
    has_no_job: bool = False

    def told_of(self, key: bytes, *, is_stored: bool) -> None:
        """A URL of a domain that is not in memory was admitted, or is about to be."""
        if self.is_loading and is_stored:
            self.news.add(key)

    @property
    def is_busy(self) -> bool:
        return bool(self.shard.under_way or self.is_loading)


class WorkingSet:
    """State: the domains of each open shard in memory, all their origins, and the schedule, which
    knows whose turn it is. `wakeup` is called when a new request may be possible."""

    def __init__(
        self,
        store: StoreThreads,
        crawls: LiveCrawls,
        notes: HostNotes,
        tasks: Tasks,
        store_failed: StoreFailed,
        wakeup: Wakeup,
    ) -> None:
        self._store = store
        self._crawls = crawls
        self.notes = notes
        self._tasks = tasks
        self._store_failed = store_failed
        self._wake = wakeup.wake
        self._shards: dict[int, ShardHosts] = {}
        self._hopeless: dict[int, HopelessOrigins] = {}
        # URLs of hosts that are given up, of shards that are opened from then on.
        self.ends_hopeless: EndsHopeless | None = None
        self.origins: set[Origin] = set()
        self.schedule = Schedule()

    # Shards

    def shard_opened(self, shard: OwnedShard) -> None:
        self._shards[shard.number] = ShardHosts(shard)
        self._hopeless[shard.number] = HopelessOrigins(shard, self._crawls, self.ends_hopeless)

    def shard_closed(self, shard: OwnedShard) -> None:
        """It was given back or lost, or its store failed: forget its domains."""
        if (hosts := self.hosts_of(shard)) is not None:
            del self._shards[shard.number], self._hopeless[shard.number]
            self._drop_from_memory(hosts)

    async def shard_leaves(self, shard: OwnedShard) -> None:
        """Begin nothing new there, wait for what is in flight, and write everything back."""
        shard.is_leaving = True
        hosts = self.hosts_of(shard)
        if hosts is None:
            return
        while hosts.is_busy and self.hosts_of(shard) is hosts:  # noqa: ASYNC110 - many end it
            await asyncio.sleep(LEAVE_LOOK_S)
        domains = list(hosts.domains.values())
        kept = [
            (domain.id, self.notes.store_time(domain.lasting_next_at), domain.delay_s)
            for domain in domains
        ]
        claimed = [
            url.put_back()
            for domain in domains
            for origin in domain.origins.values()
            for url in origin.urls
        ]
        self._drop_from_memory(hosts)

        def write_back(store: ShardStore) -> None:
            store.settle(claimed, clock.now())
            for domain_id, next_at, delay_s in kept:
                store.put_domain(domain_id, next_at, delay_s)

        await self._store.change(shard.number, write_back)
        self.shard_closed(shard)

    def hosts_of(self, shard: OwnedShard) -> ShardHosts | None:
        """None when the shard has been closed, even if it was opened again since."""
        hosts = self._shards.get(shard.number)
        return hosts if hosts is not None and hosts.shard is shard else None

    # What comes in

    async def load(self, shard: OwnedShard) -> None:
        """Load the domains that are due."""
        hosts, running = self.hosts_of(shard), self._crawls.running
        room = MOST_ORIGINS - len(self.origins)
        if hosts is None or hosts.is_loading or shard.is_leaving or not running.crawls or room <= 0:
            return
        are_jobs_all = running.crawls == (NO_CRAWL,)
        if are_jobs_all and hosts.has_no_job:
            return
        # Until one comes, even while the store is asked.
        hosts.has_no_job = are_jobs_all
        hosts.is_loading = True
        hosts.news.clear()
        hopeless = self._hopeless[shard.number]
        try:
            due = partial(
                load_due,
                running=running,
                now=clock.now(),
                domains=min(room, DOMAINS_AT_ONCE),
                urls_each=FEWEST_CLAIMED,
            )
            look = hopeless.look_if_time()

            def load(store: ShardStore) -> tuple[list[LoadedDomain], Hopeless | None, bool]:
                loaded = due(store)
                has_jobs = bool(loaded) or (are_jobs_all and has_jobs_in(store))
                return loaded, look and look(store), has_jobs

            loaded, found, has_jobs = await self._store.change(shard.number, load)
            hosts.has_no_job &= not has_jobs
        except Exception as error:
            self._store_failed(shard, error)
            return
        finally:
            hosts.is_loading = False
        if found is not None:
            hopeless.found(found)
        is_all = hosts.news <= _keys_of(loaded)
        for each in loaded:
            self._take_in(shard, each, running if is_all else NOBODY)
        if loaded:
            self._wake()

    async def load_one(self, shard: OwnedShard, name: str) -> bool:
        """Load those origins of a domain that are not in memory. Returns whether they have
        anything to fetch."""
        domain, crawls = self._domain(shard, name), self._crawls.running.at(name)
        if domain is None or not crawls:
            return False
        known = {each.id for each in domain.origins.values() if each.is_served}
        named = Named(name, crawls, _claims_of(domain), known)
        try:
            loaded = await self._store.change_with(shard.number, load_named, named)
        except Exception as error:
            self._store_failed(shard, error)
            return False
        if loaded is None:
            return False
        if self._domain(shard, name) is not None:
            self._take_in(shard, loaded, NOBODY)
            self._wake()
            return any(claims.urls for claims in loaded.claims.values())
        # Given up meanwhile.
        for claims in loaded.claims.values():
            self.notes.give_back(shard, claims.urls)
        self.notes.put_domain(domain, 0.0)
        return False

    def told_new(self, number: int, urls: Sequence[NewUrl], *, are_stored: bool = True) -> None:
        """URLs were admitted. Domains in memory are refilled at once; the others come with a load.
        Call it, too, when they are about to be stored, after that was asked for: then what leads
        to their turns is asked for in the same transaction."""
        hosts = self._shards.get(number)
        if hosts is None or hosts.shard.is_leaving:
            return
        hosts.has_no_job = False
        is_other = False
        unknown = set()
        for url in urls:
            domain = hosts.domains.get(url.domain)
            origin = None if domain is None else domain.origins.get(url.origin)
            if origin is not None:
                if origin.told_of(url.key, is_stored=are_stored):
                    self.refill(origin)
            elif domain is not None:
                unknown.add(domain.name)
            else:
                is_other = True
                hosts.told_of(url.key, is_stored=are_stored)
        for name in unknown if are_stored else ():
            self._tasks.spawn(self.load_one(hosts.shard, name))
        if is_other and not hosts.is_loading:
            self._tasks.spawn(self.load(hosts.shard))

    def queued_again(self, origin: Origin) -> None:
        """One of its URLs is queued in the store again. Its origin and domain may have left memory
        since, and may have come back."""
        shard = origin.domain.shard
        domain = self._domain(shard, origin.domain.name)
        if domain is None:
            return  # it comes with a load
        here = domain.origins.get(origin.name)
        if here is None:
            self._tasks.spawn(self.load_one(shard, domain.name))
            return
        here.queued_again()
        if not here.urls:
            self.refill(here)

    def orders_changed(self, domains: Collection[str]) -> None:
        """Crawls have stopped, perhaps, and for these domains there are other rules. URLs that may
        not be fetched any more go back to the stores; others may come from there again."""
        for origin in list(self.origins):
            self.notes.give_back_unless(origin, self._crawls.may_fetch)
        changed = [
            hosts.domains[name]
            for name in domains
            for hosts in self._shards.values()
            if name in hosts.domains
        ]
        for domain in changed:
            self.schedule.retime(domain)
            self._tasks.spawn(self.load_one(domain.shard, domain.name))
        self._wake()

    # Turns

    def turn_ended(self, request: Request, pace: Callable[[], Delay] | None) -> None:
        """`pace` is that of the domain from now on; None: there was no request after all."""
        # Not by the loop's clock: uvloop's stands still while callbacks run, and the end of an
        # answer that was read meanwhile would lie before it.
        origin, domain, now = request.origin, request.origin.domain, time.monotonic()
        if pace is None:
            self.schedule.release(request)
        else:
            delay = pace()
            domain.pace, domain.ended_at = pace, now
            domain.next_at = max(domain.next_at, now + delay.seconds)
            self.notes.keep_delay(domain, delay.lasting_s)
            self.notes.keep_time(domain)
            self.schedule.release(request, domain.next_at, now)
        if not origin.urls:
            self.schedule.remove(origin)
            self.refill(origin)
        if now >= domain.look_at:
            domain.look_at = inf
            self._tasks.spawn(self.load_one(domain.shard, domain.name))
        self._release_if_empty(domain, 0.0)
        self._wake()

    def put_off(self, origin: Origin, until: float) -> None:
        """Request nothing from the origin until then (the store's clock), and store that. Crawls
        with less patience give the origin up later, see `hopeless`."""
        self.notes.keep(origin, until)
        if origin in self.origins:
            # Its URLs wait in the store, where the API can see them.
            self.notes.give_back(origin.domain.shard, origin.urls)
            origin.urls.clear()
            self._drop_origin(origin, until)

    def refill(self, origin: Origin) -> None:
        """It has few URLs, or none. One that a claim finds none for leaves memory."""
        if origin.is_claiming or origin not in self.origins:
            return
        if origin.drained_for == self._crawls.running.at(origin.domain.name):
            if not (origin.urls or origin.is_asked):
                self._drop_origin(origin, None)
        else:
            origin.is_claiming = True
            origin.has_news = False
            origin.news.clear()
            self._tasks.spawn(self._claim_more(origin))

    def place(self, origin: Origin, claims: Claims = NO_CLAIMS, ready_at: float = 0.0) -> None:
        """Add the claimed URLs, and schedule the origin for the time at which it may be asked;
        that may be earlier than before."""
        domain = origin.domain
        origin.urls.extend(claims.urls)
        # Since they were asked for, there may be a rule against them.
        self.notes.give_back_unless(origin, self._crawls.may_fetch)
        if not origin.urls and claims.due_at is not None:
            ready_at = max(ready_at, claims.due_at)
        at = self.notes.loop_time(max(ready_at, origin.state.blocked_until))
        # Added anew: an origin already here would keep a later time, and its URLs may be newer.
        self.schedule.remove(origin)
        self.schedule.add(origin, at)
        if crawl := self._crawls.first_of(origin.urls):
            self.schedule.set_connections(domain, crawl.spec.politeness.connections_per_host)

    # Inside

    async def _claim_more(self, origin: Origin) -> None:
        shard = origin.domain.shard
        crawls = self._crawls.running.at(origin.domain.name)
        wanted = Wanted(origin.id, _claims_of(origin.domain), crawls)
        try:
            claims = await self._store.change_with(shard.number, claim_all, wanted)
        except Exception as error:
            self._store_failed(shard, error)
            return
        finally:
            origin.is_claiming = False
        has_news = origin.has_news or not origin.news <= {url.key for url in claims.urls}
        origin.drained_for = crawls if claims.is_all and not has_news else None
        if origin not in self.origins:
            # Given up meanwhile.
            self.notes.give_back(shard, claims.urls)
        elif has_news and not (claims.urls or origin.urls):
            self.refill(origin)
        elif claims.urls or origin.urls or _is_soon(claims.due_at):
            self.place(origin, claims)
            self._wake()
        elif not origin.is_asked:
            # Otherwise the request in flight may bring more; its end checks again.
            self._drop_origin(origin, claims.due_at)

    def _domain(self, shard: OwnedShard, name: str) -> Domain | None:
        hosts = self.hosts_of(shard)
        return None if hosts is None else hosts.domains.get(name)

    def _take_in(self, shard: OwnedShard, loaded: LoadedDomain, running: Running) -> None:
        """`running` are the crawls for which all was looked for."""
        hosts, stored = self.hosts_of(shard), loaded.domain
        if hosts is None:
            return
        domain = hosts.domains.get(stored.name)
        if domain is None:
            domain = hosts.domains[stored.name] = _new_domain(
                shard, stored, self.notes, self._crawls
            )
        for each in stored.origins:
            claims = loaded.claims.get(each.id)
            if claims is None:
                continue
            if not (claims.urls or _is_soon(claims.due_at)):
                if claims.due_at is not None:
                    domain.look_by(self.notes.loop_time(claims.due_at))
                continue
            origin = domain.origins.get(each.origin)
            if origin is None:
                state = OriginState.from_bytes(each.notes)
                origin = domain.origins[each.origin] = Origin(each.id, each.origin, domain, state)
                self.origins.add(origin)
                crawls = running.at(stored.name)
                origin.drained_for = crawls if crawls and claims.is_all else None
            self.place(origin, claims, each.ready_at)

    def _drop_origin(self, origin: Origin, due_at: float | None) -> None:
        """It has nothing to fetch before then (the store's clock; None: nothing at all). With its
        last origin the domain leaves memory, too."""
        domain = origin.domain
        self.origins.discard(origin)
        domain.origins.pop(origin.name, None)
        self.schedule.remove(origin)
        if due_at is not None:
            domain.look_by(self.notes.loop_time(due_at))
        self._release_if_empty(domain, due_at or 0.0)

    def _release_if_empty(self, domain: Domain, due_at: float) -> None:
        if domain.origins or domain.is_asked:
            return
        hosts = self.hosts_of(domain.shard)
        if hosts is None or hosts.domains.get(domain.name) is not domain:
            return
        del hosts.domains[domain.name]
        self.schedule.drop(domain)
        # Other hosts of it may get URLs before then.
        self.notes.put_domain(domain, min(due_at, clock.now() + SOON_S))

    def _drop_from_memory(self, hosts: ShardHosts) -> None:
        for domain in hosts.domains.values():
            self.origins.difference_update(domain.origins.values())
            self.schedule.drop(domain)
        hosts.domains.clear()


def _claims_of(domain: Domain) -> int:
    if domain.delay_s <= 0:
        return MOST_CLAIMED
    return max(FEWEST_CLAIMED, min(MOST_CLAIMED, int(CLAIM_FOR_S / domain.delay_s)))


def _keys_of(loaded: Sequence[LoadedDomain]) -> set[bytes]:
    return {url.key for one in loaded for claims in one.claims.values() for url in claims.urls}


def _is_soon(due_at: float | None) -> bool:
    return due_at is not None and due_at - clock.now() <= SOON_S


def give_back(working_set: WorkingSet, shard: OwnedShard, crawl: int, name: str) -> bool:
    """The URLs of a crawl in a domain, which wait in memory, go back to the store. Whether more of
    them may be on their way from there."""
    hosts = working_set.hosts_of(shard)
    if hosts is None:
        return False
    domain = hosts.domains.get(name)
    origins = [] if domain is None else list(domain.origins.values())
    for origin in origins:
        working_set.notes.give_back_unless(origin, lambda other, _: other != crawl)
    return hosts.is_loading or any(origin.is_claiming for origin in origins)


def _new_domain(
    shard: OwnedShard, stored: StoredDomain, notes: HostNotes, crawls: LiveCrawls
) -> Domain:
    domain = Domain(stored.id, stored.name, shard, stored.delay_s, here_since=time.monotonic())
    domain.ended_at = notes.loop_time(stored.next_at) - stored.delay_s
    domain.pace = partial(crawls.pace_of_stored, stored.name, stored.delay_s)
    domain.next_at = domain.ended_at + domain.pace().seconds
    return domain
