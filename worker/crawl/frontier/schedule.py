"""Decides which origin may be requested now: domains by the time of their next request, and the
origins of a domain in turn. Holds the one record of each domain, origin and request in flight. Pure
bookkeeping in memory; times are seconds on the loop's clock, which never goes back.

A domain is given no earlier than its own time and its origin's, and only while it has fewer
requests in flight than connections. Every operation is O(log n).
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from math import inf

from manyhands.shared.crawl.store.model import ClaimedUrl
from manyhands.worker.crawl.frontier.time_heap import HeapItem, TimeHeap
from manyhands.worker.crawl.politeness.delays import Delay, OriginState
from manyhands.worker.crawl.shards.owned import OwnedShard


def _no_delay() -> Delay:
    return Delay(0.0, 0.0)


@dataclass(slots=True, eq=False)
class Origin(HeapItem):
    """scheme://host:port. `id` is that of the shard's store, where `urls` are claimed. It is in a
    heap of its domain while it can have a turn, not before `ready_at`."""

    id: int
    name: str
    domain: "Domain"
    state: OriginState
    ready_at: float = 0.0
    urls: deque[ClaimedUrl] = field(default_factory=deque)
    is_claiming: bool = False
    # Something was queued while a claim was under way, which may have missed it. Of what was
    # admitted the keys are known.
    has_news: bool = False
    news: set[bytes] = field(default_factory=set)
    # Those crawls for which the store has no URL of it that waits.
    drained_for: tuple[int, ...] | None = None

    def queued_again(self) -> None:
        """A URL of it is in the store again."""
        self.has_news = True
        self.drained_for = None

    def told_of(self, key: bytes, *, is_stored: bool) -> bool:
        """A URL of it was admitted, or is about to be. Whether to claim it now."""
        if self.is_claiming:
            if is_stored:
                self.news.add(key)
            return False
        if all(url.key != key for url in self.urls):
            self.drained_for = None
        return not self.urls

    @property
    def has_turns(self) -> bool:
        return self.heap is not None

    @property
    def is_asked(self) -> bool:
        """A request of it is in flight."""
        return any(request.origin is self for request in self.domain.requests)

    @property
    def is_served(self) -> bool:
        """Its turn will come, or something under way will look for more of its URLs."""
        return self.has_turns or bool(self.urls or self.is_claiming) or self.is_asked


@dataclass(slots=True, eq=False)
class Domain(HeapItem):
    """A registrable domain, the unit of politeness. `id` is that of the shard's store, which knows
    `delay_s`: that part of the delay which does not end with an operator's rule. Origins that
    can have a turn are in `waiting` by their time, or in `turns` once it has come, the one
    requested longest ago first."""

    id: int
    name: str
    shard: OwnedShard
    delay_s: float = 0.0
    next_at: float = -inf
    # When its last answer ended, and what the time until `next_at` follows from.
    ended_at: float = -inf
    pace: Callable[[], Delay] = _no_delay
    connections: int = 1
    # In flight: taken, and their answers not here yet.
    requests: "set[Request]" = field(default_factory=set)
    # Given up while requests were in flight: forgotten with the last of them.
    is_dropped: bool = False
    waiting: TimeHeap[Origin] = field(default_factory=TimeHeap)
    turns: TimeHeap[Origin] = field(default_factory=TimeHeap)
    origins: dict[str, Origin] = field(default_factory=dict)
    # When the first of its origins with URLs that are not in memory is due.
    look_at: float = inf
    # Since when it is in memory.
    here_since: float = -inf

    @property
    def is_asked(self) -> bool:
        """A request is in flight, not counting those of a dropped domain of the same name."""
        return any(request.origin.domain is self for request in self.requests)

    @property
    def lasting_next_at(self) -> float:
        """`next_at` without what ends with an operator's rule: what others need to know."""
        return min(self.next_at, self.ended_at + self.delay_s)

    def look_by(self, at: float) -> None:
        """One of its origins that is not in memory is due at that time."""
        self.look_at = min(self.look_at, at)

    def due_at(self) -> float | None:
        """None: not before something else happens."""
        if len(self.requests) >= self.connections:
            return None
        origin = self.turns.first() or self.waiting.first()
        return None if origin is None else max(self.next_at, origin.ready_at)


@dataclass(slots=True, eq=False)
class Request:
    """A turn of an origin, for a page or its robots.txt. `Schedule.take` makes it and
    `Schedule.release` ends the turn when the answer is here; it is under way in its shard until the
    store knows what became of it."""

    origin: Origin
    shard: OwnedShard

    def over(self) -> None:
        """The store has recorded it, or there was nothing to record."""
        self.shard.under_way.discard(self)


class Schedule:
    """State: domains by name, including dropped ones with requests in flight; and two heaps of
    those that can be taken: due at the last check, and waiting."""

    def __init__(self) -> None:
        self._domains: dict[str, Domain] = {}
        self._due: TimeHeap[Domain] = TimeHeap()
        self._waiting: TimeHeap[Domain] = TimeHeap()
        self._places = count(1)

    def add(self, origin: Origin, ready_at: float) -> None:
        """It can have turns from that time on. An origin already here keeps the later time."""
        domain = origin.domain
        self._hold(domain)
        if origin.has_turns:
            self.block(origin, ready_at)
        else:
            origin.ready_at = ready_at
            domain.waiting.put(origin, ready_at, next(self._places))
        self._place(domain)

    def take(self, now: float) -> Request | None:
        """Of the domain that has been due for longest, for the origin whose turn it is. In flight
        until it is released."""
        self._look(now)
        domain = self._due.first()
        if domain is None:
            return None
        origin = self._whose_turn(domain, now)
        domain.turns.put(origin, 0.0, next(self._places))
        request = Request(origin, domain.shard)
        domain.requests.add(request)
        domain.shard.under_way.add(request)
        self._place(domain)
        return request

    def release(self, request: Request, next_at: float = -inf, ended_at: float = -inf) -> None:
        """Call once: its answer is here, or it was not sent after all. Its domain is not requested
        before `next_at`, even if it was dropped and came back in between."""
        domain = request.origin.domain
        domain.requests.remove(request)
        held = self._domains[domain.name]
        held.next_at = max(held.next_at, next_at)
        held.ended_at = max(held.ended_at, ended_at)
        if held.is_dropped and not held.requests:
            del self._domains[domain.name]
        else:
            self._place(held)

    def set_connections(self, domain: Domain, connections: int) -> None:
        """1 by default. May be set before the first origin is added."""
        self._hold(domain)
        domain.connections = connections
        self._place(domain)

    def block(self, origin: Origin, until: float) -> None:
        """Unless it is blocked for longer, or gone."""
        if origin.has_turns and until > origin.ready_at:
            origin.ready_at = until
            origin.domain.waiting.put(origin, until, next(self._places))
            self._place(origin.domain)

    def retime(self, domain: Domain) -> None:
        """Its pace has changed, and counts from its last answer on."""
        domain.next_at = domain.ended_at + domain.pace().seconds
        if self._domains.get(domain.name) is domain:
            self._place(domain)

    def wait(self, domain: Domain, until: float) -> None:
        """Unless it waits for longer, or is gone."""
        if self._domains.get(domain.name) is domain and until > domain.next_at:
            domain.next_at = until
            self._place(domain)

    def remove(self, origin: Origin) -> None:
        """It has no more turns. Its domain stays, with its time, until it is dropped."""
        if origin.heap is not None:
            origin.heap.remove(origin)
            self._place(origin.domain)

    def drop(self, domain: Domain) -> None:
        """Forget it and its origins. Requests in flight still count: should a domain of its name
        come back, it waits for them."""
        if self._domains.get(domain.name) is not domain:
            return
        for heap in (domain.turns, domain.waiting):
            for origin in list(heap):
                heap.remove(origin)
        self._place(domain)
        domain.is_dropped = True
        if not domain.requests:
            del self._domains[domain.name]

    def next_due(self, now: float) -> float | None:
        """When `take` can give something, if nothing happens before."""
        first = self._due.first() or self._waiting.first()
        return None if first is None else max(now, first.at)

    def due(self, now: float, most: int) -> Iterator[Domain]:
        """Some of the domains that can be taken, with the one due for longest first."""
        self._look(now)
        return islice(self._due, most)

    @property
    def domains(self) -> int:
        return len(self._domains)

    @property
    def ready(self) -> int:
        """Domains that could be given when `take` was last called. Neither these nor `waiting` has
        those with all their requests in flight, or without an origin."""
        return len(self._due)

    @property
    def waiting(self) -> int:
        """Domains whose time had not come then."""
        return len(self._waiting)

    @property
    def in_flight(self) -> int:
        """Requests."""
        return sum(len(domain.requests) for domain in self._domains.values())

    def _hold(self, domain: Domain) -> None:
        before = self._domains.get(domain.name)
        if before is not domain:
            self._domains[domain.name] = domain
            if before is not None:
                # The same set: what is released is released for both.
                domain.requests = before.requests
                domain.connections = before.connections
                domain.next_at = max(domain.next_at, before.next_at)
                domain.ended_at = max(domain.ended_at, before.ended_at)
        domain.is_dropped = False

    def _place(self, domain: Domain) -> None:
        """After any change of a domain: into the heap where it belongs now, or into none."""
        due_at = domain.due_at()
        if due_at is not None:
            self._waiting.put(domain, due_at, next(self._places))
        elif domain.heap is not None:
            domain.heap.remove(domain)

    def _look(self, now: float) -> None:
        while True:
            domain = self._waiting.first()
            if domain is None or domain.at > now:
                return
            self._due.put(domain, domain.at, next(self._places))

    def _whose_turn(self, domain: Domain, now: float) -> Origin:
        while True:
            origin = domain.waiting.first()
            if origin is None or origin.ready_at > now:
                break
            domain.turns.put(origin, 0.0, next(self._places))
        turn = domain.turns.first()
        assert turn is not None, "a domain that is due has an origin that is"
        return turn
