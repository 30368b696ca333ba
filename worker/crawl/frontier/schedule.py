"""Which origin may be asked now: domains by the time of their next request, and the origins of a
domain by turns. Pure bookkeeping in memory; times are seconds on one clock that never goes back.

A domain is given no earlier than its own time and its origin's, and only while it has fewer
requests in flight than connections. Every operation is O(log n): what is moved in a heap leaves its
old place behind; that is skipped when it comes up, and swept out before such places are the most.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from math import inf
from typing import Any, Generic, TypeVar

SWEPT_BEYOND = 16


@dataclass(slots=True, eq=False)
class _Item:
    """Something in at most one heap: at that time, in the place of that number."""

    heap: "_Heap[Any] | None" = field(default=None, init=False)
    at: float = field(default=0.0, init=False)
    place: int = field(default=0, init=False)


ItemT = TypeVar("ItemT", bound=_Item)


class _Heap(Generic[ItemT]):
    """Items by time, and by the number of their place among the same. State: all places, also
    those whose items have left, and how many items there are."""

    __slots__ = ("_items", "_places")

    def __init__(self) -> None:
        self._places: list[tuple[float, int, ItemT]] = []
        self._items = 0

    def __len__(self) -> int:
        return self._items

    def __iter__(self) -> Iterator[ItemT]:
        return (item for _, place, item in self._places if item.place == place)

    def put(self, item: ItemT, at: float, place: int) -> None:
        """Into this heap and out of the one where it was. No place has its number twice."""
        if item.heap is not None:
            item.heap.remove(item)
        item.heap, item.at, item.place = self, at, place
        self._items += 1
        heapq.heappush(self._places, (at, place, item))

    def remove(self, item: ItemT) -> None:
        item.heap, item.place = None, 0
        self._items -= 1
        if len(self._places) > 2 * self._items + SWEPT_BEYOND:
            self._places = [entry for entry in self._places if entry[2].place == entry[1]]
            heapq.heapify(self._places)

    def first(self) -> ItemT | None:
        while self._places:
            _, place, item = self._places[0]
            if item.place == place:
                return item
            heapq.heappop(self._places)
        return None


@dataclass(slots=True, eq=False)
class _Origin(_Item):
    id: int
    domain: "_Domain"
    ready_at: float


@dataclass(slots=True, eq=False)
class _Domain(_Item):
    """Its origins are in `waiting` by their time, or in `turns`: those whose time has come, the one
    that was asked longest ago first."""

    name: str
    next_at: float = -inf
    connections: int = 1
    in_flight: int = 0
    # Given up while requests were in flight: forgotten with the last of them.
    is_dropped: bool = False
    waiting: _Heap[_Origin] = field(default_factory=_Heap)
    turns: _Heap[_Origin] = field(default_factory=_Heap)

    def due_at(self) -> float | None:
        """None: not before something else happens."""
        if self.in_flight >= self.connections:
            return None
        origin = self.turns.first() or self.waiting.first()
        return None if origin is None else max(self.next_at, origin.ready_at)


class Schedule:
    """State: domains and origins by name and id; the domains that can be given, in two heaps: those
    whose time had come when somebody last looked, and those that wait; requests in flight."""

    def __init__(self) -> None:
        self._domains: dict[str, _Domain] = {}
        self._origins: dict[int, _Origin] = {}
        self._due: _Heap[_Domain] = _Heap()
        self._waiting: _Heap[_Domain] = _Heap()
        self._in_flight: dict[int, int] = {}
        self._places = count(1)

    def add_origin(
        self, domain: str, origin_id: int, ready_at: float, domain_next_at: float
    ) -> None:
        """One that is there keeps the later time, and so does its domain."""
        held = self._held(domain)
        held.next_at = max(held.next_at, domain_next_at)
        held.is_dropped = False
        if origin_id in self._origins:
            self.block(origin_id, ready_at)
        else:
            origin = self._origins[origin_id] = _Origin(origin_id, held, ready_at)
            held.waiting.put(origin, ready_at, next(self._places))
        self._place(held)

    def take(self, now: float) -> tuple[str, int] | None:
        """The domain that has been due for longest, and the origin whose turn it is. Their request
        is in flight until `done`."""
        self._look(now)
        domain = self._due.first()
        if domain is None:
            return None
        origin = self._whose_turn(domain, now)
        domain.turns.put(origin, 0.0, next(self._places))
        domain.in_flight += 1
        self._in_flight[origin.id] = self._in_flight.get(origin.id, 0) + 1
        self._place(domain)
        return domain.name, origin.id

    def done(self, domain: str, origin_id: int, next_at: float) -> None:
        """A request that was taken has ended, also one of an origin or a domain that was given up
        in between."""
        left = self._in_flight[origin_id] - 1
        if left:
            self._in_flight[origin_id] = left
        else:
            del self._in_flight[origin_id]
        held = self._domains[domain]
        held.in_flight -= 1
        held.next_at = max(held.next_at, next_at)
        if held.is_dropped and not held.in_flight:
            del self._domains[domain]
        else:
            self._place(held)

    def set_connections(self, domain: str, connections: int) -> None:
        """1 unless told otherwise. It may be told before the first origin is added."""
        held = self._held(domain)
        held.connections = connections
        self._place(held)

    def block(self, origin_id: int, until: float) -> None:
        """Unless it is blocked for longer, or gone."""
        origin = self._origins.get(origin_id)
        if origin is not None and until > origin.ready_at:
            origin.ready_at = until
            origin.domain.waiting.put(origin, until, next(self._places))
            self._place(origin.domain)

    def wait(self, domain: str, until: float) -> None:
        """Unless it waits for longer, or is gone."""
        held = self._domains.get(domain)
        if held is not None and until > held.next_at:
            held.next_at = until
            self._place(held)

    def has_origin(self, origin_id: int) -> bool:
        return origin_id in self._origins

    def remove_origin(self, origin_id: int) -> None:
        """Its domain stays, with its time, until it is dropped."""
        origin = self._origins.pop(origin_id, None)
        if origin is not None:
            if origin.heap is not None:
                origin.heap.remove(origin)
            self._place(origin.domain)

    def drop_domain(self, domain: str) -> list[int]:
        """Forget it and its origins, whose ids are returned. Requests in flight still count: should
        the domain come back, it waits for them."""
        held = self._domains.get(domain)
        if held is None:
            return []
        ids = [origin.id for heap in (held.turns, held.waiting) for origin in heap]
        for origin_id in ids:
            del self._origins[origin_id]
        held.turns, held.waiting = _Heap(), _Heap()
        self._place(held)
        held.is_dropped = True
        if not held.in_flight:
            del self._domains[domain]
        return ids

    def next_due(self, now: float) -> float | None:
        """When `take` can give something, if nothing happens before."""
        first = self._due.first() or self._waiting.first()
        return None if first is None else max(now, first.at)

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
        return sum(self._in_flight.values())

    def _held(self, name: str) -> _Domain:
        domain = self._domains.get(name)
        if domain is None:
            domain = self._domains[name] = _Domain(name)
        return domain

    def _place(self, domain: _Domain) -> None:
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

    def _whose_turn(self, domain: _Domain, now: float) -> _Origin:
        while True:
            origin = domain.waiting.first()
            if origin is None or origin.ready_at > now:
                break
            domain.turns.put(origin, 0.0, next(self._places))
        turn = domain.turns.first()
        assert turn is not None, "a domain that is due has an origin that is"
        return turn
