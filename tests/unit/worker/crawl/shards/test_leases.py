"""Who should own how many shards, and until when an owner may act."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.shared.crawl.store.model import Lease, LeaseLost, Member
from manyhands.worker.crawl.shards.leases import (
    LeaseGuard,
    shards_to_claim,
    shards_to_release,
    shares,
)

MEMBERS = st.dictionaries(st.text(min_size=1), st.integers(1, 1000), min_size=1, max_size=8).map(
    lambda slots: [Member(name, count) for name, count in slots.items()]
)


@given(st.integers(1, 256), MEMBERS)
def test_every_shard_has_its_place(shards: int, members: list[Member]) -> None:
    given_out = shares(shards, members)

    assert sum(given_out.values()) == shards
    total = sum(member.slots for member in members)
    for member in members:
        assert abs(given_out[member.name] - shards * member.slots / total) < 1


@given(st.integers(1, 256), MEMBERS)
def test_all_members_reckon_the_same(shards: int, members: list[Member]) -> None:
    assert shares(shards, members) == shares(shards, list(reversed(members)))


@given(st.integers(1, 64), MEMBERS)
def test_members_who_claim_in_turn_end_with_all_shards(shards: int, members: list[Member]) -> None:
    leases: list[Lease] = []
    for member in members:
        leases += [
            Lease(shard, member.name, 1, True)
            for shard in shards_to_claim(member.name, shards, members, leases)
        ]

    assert sorted(lease.shard for lease in leases) == list(range(shards))
    for member in members:
        mine = [lease.shard for lease in leases if lease.owner == member.name]
        assert shards_to_release(member.name, shards, members, mine) == 0


def test_a_lease_that_has_run_out_can_be_claimed() -> None:
    leases = [Lease(0, "gone", 3, False), Lease(1, "other", 1, True)]
    members = [Member("me", 10), Member("other", 10)]

    assert shards_to_claim("me", 2, members, leases) == [0]


def test_a_damaged_shard_is_left_alone_and_keeps_nobody_from_the_others() -> None:
    assert shards_to_claim("me", 3, [Member("me", 10)], [], damaged={0, 2}) == [1]


def test_one_who_is_joined_by_another_has_too_many() -> None:
    members = [Member("me", 10), Member("new", 10)]

    assert shards_to_release("me", 8, members, list(range(8))) == 4


def test_nobody_is_no_error() -> None:
    assert shares(8, []) == {}


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_an_owner_acts_no_longer_than_its_lease_by_its_own_clock() -> None:
    clock = Clock()
    lease_guard = LeaseGuard(5.0, clock)
    lease_guard.granted(7, epoch=3, asked_at=100.0)

    clock.now = 103.9
    lease_guard.check(7, 3)
    clock.now = 104.1
    with pytest.raises(LeaseLost, match="shard 7"):
        lease_guard.check(7, 3)


def test_a_renewal_counts_from_when_it_was_asked_for() -> None:
    clock = Clock()
    lease_guard = LeaseGuard(5.0, clock)
    lease_guard.granted(7, epoch=3, asked_at=100.0)

    clock.now = 103.0
    assert lease_guard.renewed({7}, asked_at=101.0) == []
    clock.now = 104.9
    lease_guard.check(7, 3)
    clock.now = 105.1
    with pytest.raises(LeaseLost):
        lease_guard.check(7, 3)


def test_what_the_store_does_not_confirm_is_lost() -> None:
    lease_guard = LeaseGuard(5.0, Clock())
    lease_guard.granted(1, 1, 100.0)
    lease_guard.granted(2, 1, 100.0)

    assert lease_guard.renewed({2}, 101.0) == [1]


def test_an_older_epoch_has_no_rights() -> None:
    lease_guard = LeaseGuard(5.0, Clock())
    lease_guard.granted(1, 2, 100.0)

    with pytest.raises(LeaseLost):
        lease_guard.check(1, 1)


def test_a_shard_that_was_given_up_has_none() -> None:
    lease_guard = LeaseGuard(5.0, Clock())
    lease_guard.granted(1, 2, 100.0)
    lease_guard.ended(1)

    with pytest.raises(LeaseLost):
        lease_guard.check(1, 2)
