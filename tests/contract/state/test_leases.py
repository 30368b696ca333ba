"""Layout, members, leases and the leader. A lease of no seconds has run out at once."""

import pytest

from manyhands.shared.crawl.store.model import Layout, Lease, Member

LONG_S = 60.0
NO_S = 0.0


def test_the_first_layout_is_what_is_wanted(stores):
    assert stores.control().layout(64) == Layout(1, 64, 64, 64)
    assert stores.control().layout(64) == Layout(1, 64, 64, 64)


def test_a_layout_stays_until_it_is_changed(control):
    control.layout(64)
    assert control.layout(16) == Layout(1, 64, 16, 64)
    control.finish_reshard(2, 16)
    assert control.layout(16) == Layout(2, 16, 16, 64)
    control.finish_reshard(3, 128)
    assert control.layout(16) == Layout(3, 128, 16, 128)


def test_a_new_layout_is_a_new_version(control):
    control.layout(4)
    before = control.version()
    control.finish_reshard(2, 8)
    assert control.version() > before


def test_members_are_those_who_stay(stores, control):
    control.join(Member("b", 50), LONG_S)
    control.join(Member("a", 10), LONG_S)
    control.join(Member("gone", 10), NO_S)
    control.join(Member("b", 60), LONG_S)
    assert stores.control().members() == [Member("a", 10), Member("b", 60)]
    control.leave("a")
    control.join(Member("b", 60), NO_S)
    assert control.members() == []


def test_a_lease_is_that_of_one_owner(stores, control):
    control.layout(4)
    assert control.claim_lease(2, "a", LONG_S) == 1
    assert stores.control().claim_lease(2, "b", LONG_S) is None
    assert control.claim_lease(3, "b", LONG_S) == 1
    assert control.leases() == [Lease(2, "a", 1, True), Lease(3, "b", 1, True)]


def test_a_live_lease_cannot_be_claimed_again_by_its_owner(control):
    control.claim_lease(0, "a", LONG_S)
    assert control.claim_lease(0, "a", LONG_S) is None


def test_a_lease_that_ran_out_goes_to_the_next_with_a_later_epoch(control):
    control.layout(4)
    assert control.claim_lease(0, "a", NO_S) == 1
    assert control.leases() == [Lease(0, "a", 1, False)]
    assert control.claim_lease(0, "b", LONG_S) == 2


def test_the_epoch_grows_after_a_release_too(control):
    control.layout(4)
    epoch = control.claim_lease(0, "a", LONG_S)
    control.release_lease(0, epoch)
    assert control.leases() == [Lease(0, "a", 1, False, is_given_back=True)]
    assert control.claim_lease(0, "a", LONG_S) == 2
    # Late, and so without effect.
    control.release_lease(0, epoch)
    assert control.claim_lease(0, "b", LONG_S) is None


def test_only_ones_own_leases_are_renewed(control):
    control.layout(8)
    control.claim_lease(0, "a", LONG_S)
    control.claim_lease(1, "b", LONG_S)
    control.claim_lease(2, "a", NO_S)
    control.claim_lease(2, "b", LONG_S)
    control.release_lease(3, control.claim_lease(3, "a", LONG_S))
    control.claim_lease(4, "a", LONG_S)
    renewed = control.renew_leases("a", {0: 1, 1: 1, 2: 1, 3: 1, 4: 9, 5: 1}, NO_S)
    assert renewed == {0}
    assert {lease.shard for lease in control.leases() if lease.is_live} == {1, 2, 4}


def test_a_lease_that_ran_out_is_renewed_unless_somebody_has_taken_it(control):
    control.layout(4)
    for shard in (0, 1):
        control.claim_lease(shard, "a", NO_S)
    control.claim_lease(1, "b", NO_S)
    assert control.renew_leases("a", {0: 1, 1: 1}, LONG_S) == {0}
    assert control.claim_lease(0, "b", LONG_S) is None
    assert control.claim_lease(1, "b", LONG_S) == 3


def test_a_lease_that_was_given_back_is_not_renewed(control):
    control.claim_lease(0, "a", LONG_S)
    control.leave("a")
    assert control.renew_leases("a", {0: 1}, LONG_S) == set()


def test_who_leaves_gives_up_leases_and_the_lead(control):
    control.layout(4)
    control.claim_lease(0, "a", LONG_S)
    control.claim_lease(1, "b", LONG_S)
    control.lead("a", LONG_S)
    control.leave("a")
    assert [lease.is_live for lease in control.leases()] == [False, True]
    assert control.lead("b", LONG_S)


def test_leases_of_shards_that_are_no_more_are_not_shown(control):
    control.layout(4)
    for shard in range(4):
        control.claim_lease(shard, "a", LONG_S)
    control.finish_reshard(2, 2)
    assert [lease.shard for lease in control.leases()] == [0, 1]


def test_there_is_one_leader(stores, control):
    assert control.lead("a", LONG_S)
    assert not stores.control().lead("b", LONG_S)
    assert control.lead("a", NO_S)
    assert stores.control().lead("b", LONG_S)
    assert not control.lead("a", LONG_S)


@pytest.mark.parametrize("change", ["join", "lease", "lead"])
def test_who_lives_is_no_new_version(control, change):
    control.layout(4)
    before = control.version()
    if change == "join":
        control.join(Member("a", 1), LONG_S)
    elif change == "lease":
        control.claim_lease(0, "a", LONG_S)
        control.renew_leases("a", {0: 1}, LONG_S)
    else:
        control.lead("a", LONG_S)
    assert control.version() == before
