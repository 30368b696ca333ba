"""Which origin may be asked now: against a naive model under any sequence of events, and with as
many domains as a large crawl has in memory."""

import tracemalloc
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from manyhands.worker.crawl.frontier.schedule import Domain, Origin, Request, Schedule
from manyhands.worker.crawl.politeness.delays import OriginState
from manyhands.worker.crawl.shards.owned import OwnedShard

DOMAINS = 4
ORIGINS = 10
TIMES = st.integers(0, 12).map(float)


class ByNumber:
    """The schedule, with origins by number and domains by name; their records are made when they
    are first named, and of a domain that was dropped anew. State: the records, and the requests in
    flight by origin."""

    def __init__(self) -> None:
        self.schedule = Schedule()
        self.shard = OwnedShard(0, 1)
        self.records: dict[str, Domain] = {}
        self.origins: dict[int, Origin] = {}
        self.requests: dict[int, list[Request]] = {}

    def domain(self, name: str) -> Domain:
        if name not in self.records:
            self.records[name] = Domain(len(self.records), name, self.shard)
        return self.records[name]

    def add_origin(self, name: str, number: int, ready_at: float, next_at: float) -> None:
        domain = self.domain(name)
        domain.next_at = max(domain.next_at, next_at)
        origin = self.origins.get(number)
        if origin is None or origin.domain is not domain:
            origin = self.origins[number] = Origin(number, str(number), domain, OriginState())
        self.schedule.add(origin, ready_at)

    def take(self, now: float) -> tuple[str, int] | None:
        request = self.schedule.take(now)
        if request is None:
            return None
        self.requests.setdefault(request.origin.id, []).append(request)
        return request.origin.domain.name, request.origin.id

    def done(self, name: str, number: int, next_at: float) -> None:
        request = self.requests[number].pop()
        assert request.origin.domain.name == name
        self.schedule.release(request, next_at)

    def set_connections(self, name: str, connections: int) -> None:
        self.schedule.set_connections(self.domain(name), connections)

    def block(self, number: int, until: float) -> None:
        if number in self.origins:
            self.schedule.block(self.origins[number], until)

    def wait(self, name: str, until: float) -> None:
        if name in self.records:
            self.schedule.wait(self.records[name], until)

    def remove_origin(self, number: int) -> None:
        if number in self.origins:
            self.schedule.remove(self.origins[number])

    def drop_domain(self, name: str) -> list[int]:
        """Those that had turns."""
        domain = self.records.pop(name, None)
        if domain is None:
            return []
        dropped = [origin for heap in (domain.turns, domain.waiting) for origin in heap]
        self.schedule.drop(domain)
        assert not any(origin.has_turns for origin in self.origins.values() if origin in dropped)
        return [origin.id for origin in dropped]

    def next_due(self, now: float) -> float | None:
        return self.schedule.next_due(now)

    @property
    def domains(self) -> int:
        return self.schedule.domains

    @property
    def ready(self) -> int:
        return self.schedule.ready

    @property
    def waiting(self) -> int:
        return self.schedule.waiting

    @property
    def in_flight(self) -> int:
        return self.schedule.in_flight


@dataclass
class NaiveDomain:
    next_at: float
    connections: int = 1
    in_flight: list[int] = field(default_factory=list)
    is_dropped: bool = False
    ready_at: dict[int, float] = field(default_factory=dict)

    def due_at(self) -> float | None:
        if not self.ready_at or len(self.in_flight) >= self.connections:
            return None
        return max(self.next_at, min(self.ready_at.values()))


class AnythingThatHappens(RuleBasedStateMachine):
    """The model scans everything. An origin's domain is its number modulo DOMAINS."""

    @initialize()
    def start(self):
        self.ready = ByNumber()
        self.now = 0.0
        self.model: dict[str, NaiveDomain] = {}
        # Of each origin that could have been taken: who was instead of it.
        self.passed_over: dict[int, set[int]] = {}

    def domain_of(self, origin: int) -> str:
        return f"d{origin % DOMAINS}"

    @rule(origin=st.integers(0, ORIGINS - 1), ready_at=TIMES, next_at=TIMES)
    def add(self, origin, ready_at, next_at):
        name = self.domain_of(origin)
        self.ready.add_origin(name, origin, self.now + ready_at - 6, self.now + next_at - 6)
        domain = self.model.setdefault(name, NaiveDomain(self.now + next_at - 6))
        domain.is_dropped = False
        domain.next_at = max(domain.next_at, self.now + next_at - 6)
        known_at = domain.ready_at.get(origin, self.now + ready_at - 6)
        self.set_ready_at(domain, origin, max(known_at, self.now + ready_at - 6))

    def set_ready_at(self, domain: NaiveDomain, origin: int, ready_at: float) -> None:
        if domain.ready_at.get(origin) != ready_at:
            domain.ready_at[origin] = ready_at
            self.passed_over.pop(origin, None)

    @rule(seconds=TIMES)
    def time_passes(self, seconds):
        self.now += seconds

    @rule()
    def take(self):
        due = {
            name: domain.due_at()
            for name, domain in self.model.items()
            if (at := domain.due_at()) is not None and at <= self.now
        }
        taken = self.ready.take(self.now)
        if taken is None:
            assert due == {}
            return
        name, origin = taken
        assert name in due
        domain = self.model[name]
        assert len(domain.in_flight) < domain.connections
        assert domain.ready_at[origin] <= self.now
        self.check_order(due, name)
        self.check_turns(domain, origin)
        domain.in_flight.append(origin)

    def check_order(self, due: dict[str, float | None], name: str) -> None:
        """Where a domain has one origin, since when it is due cannot be disputed."""
        alone = [at for other, at in due.items() if len(self.model[other].ready_at) == 1]
        if len(self.model[name].ready_at) == 1:
            assert due[name] == min(at for at in alone if at is not None)

    def check_turns(self, domain: NaiveDomain, taken: int) -> None:
        self.passed_over.pop(taken, None)
        for origin, ready_at in domain.ready_at.items():
            if origin != taken and ready_at <= self.now:
                others = self.passed_over.setdefault(origin, set())
                assert taken not in others, f"{taken} twice before {origin}"
                others.add(taken)

    def flying(self) -> list[tuple[str, int]]:
        return [(name, it) for name, domain in self.model.items() for it in domain.in_flight]

    @precondition(lambda self: self.flying())
    @rule(data=st.data(), delay=TIMES)
    def done(self, data, delay):
        name, origin = data.draw(st.sampled_from(self.flying()))
        self.ready.done(name, origin, self.now + delay - 3)
        domain = self.model[name]
        domain.in_flight.remove(origin)
        domain.next_at = max(domain.next_at, self.now + delay - 3)
        if domain.is_dropped and not domain.in_flight:
            del self.model[name]

    @rule(origin=st.integers(0, ORIGINS - 1), seconds=TIMES)
    def block(self, origin, seconds):
        self.ready.block(origin, self.now + seconds)
        domain = self.model.get(self.domain_of(origin))
        if domain is not None and origin in domain.ready_at:
            at = max(domain.ready_at[origin], self.now + seconds)
            self.set_ready_at(domain, origin, at)

    @rule(number=st.integers(0, DOMAINS - 1), seconds=TIMES)
    def wait(self, number, seconds):
        self.ready.wait(f"d{number}", self.now + seconds)
        domain = self.model.get(f"d{number}")
        # Nobody has the record of a dropped one, of which only requests in flight are left.
        if domain is not None and not domain.is_dropped:
            domain.next_at = max(domain.next_at, self.now + seconds)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), connections=st.integers(1, 4))
    def set_connections(self, data, connections):
        name = data.draw(st.sampled_from(sorted(self.model)))
        self.ready.set_connections(name, connections)
        self.model[name].connections = connections
        # One that was dropped is back, until it is dropped again.
        self.model[name].is_dropped = False

    @rule(origin=st.integers(0, ORIGINS - 1))
    def remove_origin(self, origin):
        self.ready.remove_origin(origin)
        domain = self.model.get(self.domain_of(origin))
        if domain is not None:
            domain.ready_at.pop(origin, None)
        self.passed_over.pop(origin, None)

    @rule(number=st.integers(0, DOMAINS - 1))
    def drop_domain(self, number):
        name = f"d{number}"
        domain = self.model.get(name)
        held = {} if domain is None else domain.ready_at
        assert sorted(self.ready.drop_domain(name)) == sorted(held)
        for origin in held:
            self.passed_over.pop(origin, None)
        if domain is None:
            return
        domain.ready_at = {}
        domain.is_dropped = True
        if not domain.in_flight:
            del self.model[name]

    @invariant()
    def nothing_is_lost(self):
        assert self.ready.in_flight == len(self.flying())
        due = [at for domain in self.model.values() if (at := domain.due_at()) is not None]
        assert self.ready.domains == len(self.model)
        assert self.ready.ready + self.ready.waiting == len(due)
        expected = max(self.now, min(due)) if due else None
        assert self.ready.next_due(self.now) == expected


TestAnythingThatHappens = AnythingThatHappens.TestCase
TestAnythingThatHappens.settings = settings(max_examples=60, stateful_step_count=40)


@pytest.fixture
def ready() -> ByNumber:
    return ByNumber()


def test_one_request_at_a_time_is_in_flight_in_a_domain(ready):
    ready.add_origin("example.com", 1, 0.0, 0.0)
    ready.add_origin("example.com", 2, 0.0, 0.0)
    assert ready.take(5.0) == ("example.com", 1)
    assert ready.take(100.0) is None
    ready.done("example.com", 1, 101.0)
    assert ready.take(100.9) is None
    assert ready.next_due(100.9) == 101.0
    assert ready.take(101.0) == ("example.com", 2)


def test_more_connections_may_be_allowed_before_an_origin_is_known(ready):
    ready.set_connections("example.com", 3)
    ready.add_origin("example.com", 1, 0.0, 0.0)
    assert [ready.take(0.0) for _ in range(4)] == [("example.com", 1)] * 3 + [None]
    ready.done("example.com", 1, 1.0)
    assert ready.take(0.5) is None
    assert ready.take(1.0) == ("example.com", 1)


def test_fewer_connections_count_from_the_next_request_on(ready):
    ready.set_connections("example.com", 2)
    ready.add_origin("example.com", 1, 0.0, 0.0)
    assert ready.take(0.0) and ready.take(0.0)
    ready.set_connections("example.com", 1)
    ready.done("example.com", 1, 0.0)
    assert ready.take(0.0) is None
    ready.done("example.com", 1, 0.0)
    assert ready.take(0.0) is not None


def test_the_domain_that_has_been_due_for_longest_comes_first(ready):
    ready.add_origin("late.example", 1, 0.0, 3.0)
    ready.add_origin("early.example", 2, 1.0, 0.0)
    ready.add_origin("middle.example", 3, 2.0, 2.0)
    assert [ready.take(10.0) for _ in range(4)] == [
        ("early.example", 2),
        ("middle.example", 3),
        ("late.example", 1),
        None,
    ]


def test_origins_of_a_domain_take_turns_also_with_one_that_keeps_coming_back(ready):
    for origin in (1, 2, 3):
        ready.add_origin("example.com", origin, 0.0, 0.0)
    taken = []
    for _ in range(6):
        name, origin = ready.take(1.0)
        taken.append(origin)
        ready.done(name, origin, 0.0)
        # Its URLs ran out, and new ones were found at once.
        ready.remove_origin(origin)
        ready.add_origin("example.com", origin, 0.0, 0.0)
    assert taken == [1, 2, 3, 1, 2, 3]


def test_a_blocked_origin_leaves_its_domain_to_the_others(ready):
    ready.add_origin("example.com", 1, 0.0, 0.0)
    ready.add_origin("example.com", 2, 0.0, 0.0)
    ready.block(1, 60.0)
    for now in (1.0, 2.0):
        assert ready.take(now) == ("example.com", 2)
        ready.done("example.com", 2, now + 1)
    ready.block(2, 50.0)
    assert ready.next_due(10.0) == 50.0
    assert ready.take(60.0) in {("example.com", 1), ("example.com", 2)}


def test_an_origin_that_is_added_again_keeps_its_later_time(ready):
    ready.add_origin("example.com", 1, 60.0, 5.0)
    ready.add_origin("example.com", 1, 0.0, 0.0)
    assert ready.next_due(0.0) == 60.0
    ready.add_origin("example.com", 1, 70.0, 80.0)
    assert ready.next_due(0.0) == 80.0


def test_a_domain_that_was_dropped_and_comes_back_waits_for_its_request_in_flight(ready):
    ready.add_origin("example.com", 1, 0.0, 0.0)
    ready.add_origin("example.com", 2, 0.0, 0.0)
    assert ready.take(0.0) == ("example.com", 1)
    assert sorted(ready.drop_domain("example.com")) == [1, 2]
    assert ready.next_due(0.0) is None
    ready.add_origin("example.com", 3, 0.0, 0.0)
    assert ready.take(1.0) is None
    ready.done("example.com", 1, 2.0)
    assert ready.take(1.5) is None
    assert ready.take(2.0) == ("example.com", 3)


def test_a_dropped_domain_is_forgotten_with_its_last_request(ready):
    ready.add_origin("example.com", 1, 0.0, 0.0)
    ready.take(0.0)
    ready.drop_domain("example.com")
    assert (ready.domains, ready.in_flight) == (1, 1)
    ready.done("example.com", 1, 9.0)
    assert (ready.domains, ready.in_flight) == (0, 0)
    assert ready.drop_domain("example.com") == []


def test_a_request_that_was_not_taken_cannot_end(ready):
    ready.add_origin("example.com", 1, 0.0, 0.0)
    with pytest.raises(KeyError):
        ready.schedule.release(Request(ready.origins[1], ready.shard), 0.0)


def test_a_request_ends_once(ready):
    ready.add_origin("example.com", 1, 0.0, 0.0)
    request = ready.schedule.take(0.0)
    ready.schedule.release(request)
    with pytest.raises(KeyError):
        ready.schedule.release(request)


def test_a_request_is_under_way_in_its_shard_until_it_is_over(ready):
    ready.add_origin("example.com", 1, 0.0, 0.0)
    request = ready.schedule.take(0.0)
    ready.schedule.release(request)
    assert ready.shard.in_flight == 1
    request.over()
    assert ready.shard.in_flight == 0


def test_the_counts_say_what_waits_and_what_could_be_taken(ready):
    for number in range(10):
        ready.add_origin(f"{number}.example", number, float(number), 0.0)
    assert ready.take(4.0) == ("0.example", 0)
    assert (ready.domains, ready.ready, ready.waiting, ready.in_flight) == (10, 4, 5, 1)


def test_old_places_do_not_pile_up(ready):
    ready.add_origin("example.com", 1, 0.0, 0.0)
    ready.add_origin("example.org", 2, 0.0, 0.0)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(5000):
            ready.block(1, float(number))
            ready.wait("example.com", float(number))
            ready.add_origin("example.com", 3 + number % 2, 0.0, 0.0)
            ready.remove_origin(3 + number % 2)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 20_000


def test_of_a_hundred_thousand_domains_each_is_asked_in_its_time(ready):
    domains, asked = 100_000, 20_000
    for number in range(domains):
        ready.add_origin(f"{number}.example", number, 0.0, (number * 7919 % domains) / 100)
    now = 0.0
    given: list[float] = []
    while len(given) < asked:
        taken = ready.take(now)
        if taken is None:
            following = ready.next_due(now)
            assert following is not None and following > now
            now = following
            continue
        given.append((taken[1] * 7919 % domains) / 100)
        assert given[-1] <= now
        ready.done(*taken, now + 10_000.0)
    assert given == [number / 100 for number in range(asked)]
    assert (ready.domains, ready.ready, ready.waiting) == (domains, 0, domains)
