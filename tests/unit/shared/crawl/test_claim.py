"""Whose are the queues fetch.NN: two and three contenders, in every order of what they do."""

import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from manyhands.shared.crawl.claim import (
    LONGEST_WAIT_S,
    SIBLINGS_CLEAR_WITHIN_S,
    SURE_AFTER_S,
    FetchClaim,
    Step,
    are_fetch_queues,
    is_mark_queue,
    mark_job,
    mark_queue,
    marked_by,
)

ALONE, OTHER = "aaaaaaaaaa", "bbbbbbbbbb"


# More than anybody waits for.
LONG_S = 1000.0


def at_once(_least_s: float, _most_s: float) -> float:
    """Whoever is to wait is simply not scheduled in these tests."""
    return 0.0


@dataclass(frozen=True)
class Service:
    """One that contends: what it knows, what it does next, and how far its look has come."""

    tag: str
    claim: FetchClaim
    does: Step = Step.LOOK
    read: frozenset[str] = frozenset()
    seen: frozenset[str] = frozenset()

    def key(self) -> tuple[object, ...]:
        is_looking = self.does in (Step.LOOK, Step.REST)
        claim = self.claim
        known = (claim.may_fetch, claim._was_marked, claim._has_pushed, claim._met_since)
        return self.tag, known, "look" if is_looking else self.does, self.read, self.seen


@dataclass(frozen=True)
class World:
    """The marks on the broker, and everybody. INFO of a Faktory counts one queue after the other;
    with `is_atomic` it is one moment, so that there are few enough orders for three of them. It is
    always 0 o'clock: before a look, all that a service remembers may have become much older."""

    services: tuple[Service, ...]
    is_atomic: bool
    marks: frozenset[str] = frozenset()

    def key(self) -> tuple[object, ...]:
        return self.marks, tuple(service.key() for service in self.services)

    def next(self, number: int) -> Iterator["World"]:
        """All that can come of one service's next command."""
        service = self.services[number]
        if service.does is Step.PUSH:
            claim = copy.copy(service.claim)
            claim.pushed()
            yield self._with(number, fresh(service, claim), self.marks | {service.tag})
        elif service.does is Step.TAKE_BACK:
            yield self._with(number, fresh(service, service.claim), self.marks - {service.tag})
        elif service.does is Step.CLEAR:
            left = self.marks - service.claim.others
            yield self._with(number, fresh(service, service.claim), left)
        elif self.is_atomic:
            yield from self._read(number, self._tags)
        else:
            for tag in sorted(self._tags - service.read):
                yield from self._read(number, frozenset({tag}))

    def killed(self, number: int) -> "World":
        """And started again: it knows nothing, its mark stays."""
        tag = self.services[number].tag
        return self._with(number, Service(tag, FetchClaim(tag, at_once)), self.marks)

    def holders(self) -> set[str]:
        return {service.tag for service in self.services if service.claim.may_fetch}

    @property
    def _tags(self) -> frozenset[str]:
        return frozenset(service.tag for service in self.services)

    def _read(self, number: int, tags: frozenset[str]) -> Iterator["World"]:
        service = self.services[number]
        read = service.read | tags
        seen = service.seen | (tags & self.marks)
        if read != self._tags:
            yield self._with(number, replace(service, read=read, seen=seen), self.marks)
            return
        for passed_s in (LONG_S, 0.0):
            claim = copy.copy(service.claim)
            if claim._met_since is not None:
                claim._met_since = max(-LONG_S, claim._met_since - passed_s)
            does = claim.looked(seen, 0.0)
            yield self._with(number, replace(fresh(service, claim), does=does), self.marks)

    def _with(self, number: int, service: Service, marks: frozenset[str]) -> "World":
        services = list(self.services)
        services[number] = service
        return World(tuple(services), self.is_atomic, marks)


def fresh(service: Service, claim: FetchClaim) -> Service:
    return Service(service.tag, claim)


def world_of(*tags: str) -> World:
    services = tuple(Service(tag, FetchClaim(tag, at_once)) for tag in tags)
    return World(services, is_atomic=len(services) > 2)


def reachable(start: World, *, with_deaths: bool) -> Iterator[World]:
    known = {start.key()}
    waiting = [start]
    while waiting:
        world = waiting.pop()
        yield world
        followers = [
            follower for number in range(len(world.services)) for follower in world.next(number)
        ]
        if with_deaths:
            followers += [world.killed(number) for number in range(len(world.services))]
        for follower in followers:
            if follower.key() not in known:
                known.add(follower.key())
                waiting.append(follower)


@pytest.mark.parametrize("tags", [("a", "b"), ("a", "b", "c")], ids=["two", "three"])
def test_of_different_stores_never_two_hold_whatever_the_order_and_whoever_is_killed(tags):
    have_held = set()
    for world in reachable(world_of(*tags), with_deaths=True):
        assert len(world.holders()) <= 1, world
        have_held |= world.holders()
    assert have_held == set(tags)


@pytest.mark.parametrize(
    "tags", [("a", "b"), ("a", "b", "c"), ("a", "a", "b")], ids=["two", "three", "siblings"]
)
def test_from_wherever_they_are_one_store_ends_up_with_it(tags):
    """Also of two services of one store, which share its mark: one may hold by a mark that the
    other takes back, and finds out at its next look."""
    lots = random.Random(7)
    for world in reachable(world_of(*tags), with_deaths=False):
        assert len(settled(world, lots).holders()) == 1, world


def settled(world: World, lots: random.Random) -> World:
    """Each has so many turns that all have drawn different lots, and looked twice after that."""
    for _ in range(12):
        for number in lots.sample(range(len(world.services)), len(world.services)):
            world = through_a_turn(world, number)
    return world


def through_a_turn(world: World, number: int) -> World:
    """As a supervisor has it: what a look leads to follows at once."""
    for _ in range(3 * len(world.services)):
        world = next(world.next(number))
        service = world.services[number]
        if service.does is Step.REST and not service.read:
            return world
    return world


class TestOneService:
    def test_the_first_pushes_looks_again_and_holds(self):
        claim = FetchClaim(ALONE)
        assert claim.looked(set(), 0.0) is Step.PUSH
        assert not claim.may_fetch
        claim.pushed()
        assert claim.looked({ALONE}, 0.1) is Step.REST
        assert claim.may_fetch

    def test_after_a_restart_its_mark_is_seen_twice_before_it_holds(self):
        claim = FetchClaim(ALONE)
        assert claim.looked({ALONE}, 0.0) is Step.LOOK
        assert not claim.may_fetch
        assert claim.looked({ALONE}, 0.0) is Step.REST
        assert claim.may_fetch

    def test_one_that_meets_another_gives_way_for_a_random_time(self):
        claim = FetchClaim(ALONE, lambda least, most: (least + most) / 2)
        claim.looked(set(), 10.0)
        claim.pushed()
        assert claim.looked({ALONE, OTHER}, 10.0) is Step.TAKE_BACK
        assert claim.looked(set(), 10.0 + LONGEST_WAIT_S / 2 - 0.1) is Step.REST
        assert claim.looked(set(), 10.0 + LONGEST_WAIT_S / 2) is Step.PUSH

    def test_a_holder_does_not_give_way(self):
        claim = holder()
        assert claim.looked({ALONE, OTHER}, 5.0) is Step.REST
        assert claim.may_fetch
        assert not claim.is_anothers(1000.0)

    def test_a_holder_clears_a_mark_that_no_contender_takes_back(self):
        claim = holder()
        claim.looked({ALONE, OTHER}, 5.0)
        claim.looked({ALONE}, 6.0)
        claim.looked({ALONE, OTHER}, 7.0)
        assert claim.looked({ALONE, OTHER}, 7.0 + SURE_AFTER_S - 0.1) is Step.REST
        assert claim.looked({ALONE, OTHER}, 7.0 + SURE_AFTER_S) is Step.CLEAR
        assert claim.may_fetch

    def test_a_mark_that_a_sibling_may_hold_by_is_not_taken_back_at_once(self):
        claim = FetchClaim(ALONE)
        assert claim.looked({ALONE, OTHER}, 10.0) is Step.REST
        assert claim.looked({ALONE, OTHER}, 10.0 + SURE_AFTER_S) is Step.REST
        assert not claim.is_anothers(10.0 + SURE_AFTER_S)
        # The other was a contender, or dead: somebody holds.
        assert claim.looked({ALONE}, 15.0) is Step.LOOK
        assert claim.looked({ALONE}, 15.0) is Step.REST
        assert claim.may_fetch

    def test_beside_another_that_nobody_clears_nobody_holds_by_it(self):
        claim = FetchClaim(ALONE)
        claim.looked({ALONE, OTHER}, 10.0)
        until = 10.0 + SIBLINGS_CLEAR_WITHIN_S
        assert claim.looked({ALONE, OTHER}, until) is Step.TAKE_BACK
        claim.looked({OTHER}, until + 1)
        assert claim.is_anothers(until + 1 + SURE_AFTER_S)

    def test_after_a_flush_the_mark_is_renewed(self):
        claim = holder()
        assert claim.looked(set(), 5.0) is Step.PUSH
        assert not claim.may_fetch
        claim.pushed()
        claim.looked({ALONE}, 5.1)
        assert claim.may_fetch

    def test_whoever_claims_after_a_flush_has_it(self):
        claim = holder()
        assert claim.looked({OTHER}, 5.0) is Step.REST
        assert not claim.may_fetch
        assert claim.others == {OTHER}

    def test_a_mark_that_stays_is_no_contenders(self):
        claim = FetchClaim(ALONE)
        claim.looked({OTHER}, 10.0)
        assert not claim.is_anothers(10.0 + SURE_AFTER_S - 0.1)
        claim.looked({OTHER}, 10.0 + SURE_AFTER_S)
        assert claim.is_anothers(10.0 + SURE_AFTER_S)
        claim.looked(set(), 20.0)
        claim.looked({OTHER}, 21.0)
        assert not claim.is_anothers(21.0)


class TestWithoutAStore:
    def test_it_fetches_as_long_as_no_store_has_claimed_the_broker_and_never_marks_it(self):
        claim = FetchClaim("")
        assert claim.looked(set(), 0.0) is Step.REST
        assert claim.may_fetch
        assert claim.looked({OTHER}, 1.0) is Step.REST
        assert not claim.may_fetch
        assert claim.is_anothers(1.0 + SURE_AFTER_S)
        assert claim.looked(set(), 9.0) is Step.REST
        assert claim.may_fetch


def test_the_mark_is_a_job_that_nobody_fetches_and_no_retry_brings_back():
    job = mark_job(ALONE, "host.1")
    assert job.queue == mark_queue(ALONE) == f"manyhands.state.{ALONE}"
    assert (job.retry, job.args) == (0, [ALONE, "host.1"])


def test_marks_are_queues_that_are_not_empty():
    sizes = {mark_queue(ALONE): 2, mark_queue(OTHER): 0, "fetch.01": 3, "manyhands": 1}
    assert marked_by(sizes) == {ALONE}
    assert [name for name in sizes if is_mark_queue(name)] == [mark_queue(ALONE), mark_queue(OTHER)]


@pytest.mark.parametrize(
    ("names", "are"),
    [
        (["parse", "fetch.07"], True),
        (["fetch.123"], True),
        (["fetch.*"], True),
        (["fetch", "fetch.slow", "my.fetch.07", "crawl.tag.07"], False),
        ([], False),
    ],
)
def test_which_queues_belong_to_the_store(names, are):
    assert are_fetch_queues(names) is are


def holder() -> FetchClaim:
    claim = FetchClaim(ALONE)
    claim.looked({ALONE}, 0.0)
    claim.looked({ALONE}, 0.0)
    assert claim.may_fetch
    return claim
