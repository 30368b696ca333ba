"""A shard goes from one owner to the next."""

import pytest

from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import Fetches, LeaseLost, Outgoing, Settled, StoredRobots
from manyhands.shared.crawl.store.protocol import ShardStore
from tests.contract.state.helpers import (
    CRAWL,
    NOW,
    SITE,
    admit,
    admit_and_claim,
    claim,
    origin_id,
    pages,
    settle,
    state_counts,
    take_all,
    taken_domains,
    url,
    waiting,
)


def test_an_older_owner_can_change_nothing_any_more(stores):
    old = stores.shard(epoch=1)
    admit(old, pages(1))
    new = stores.shard(epoch=2)
    with pytest.raises(LeaseLost), old.transaction():
        old.admit(CRAWL, pages(5), NOW)
    assert state_counts(new) == {UrlState.QUEUED: 1}


def test_a_shard_cannot_be_opened_with_an_older_epoch(stores):
    stores.shard(epoch=5)
    with pytest.raises(LeaseLost):
        stores.shard(epoch=4)


def test_an_owner_that_has_it_open_twice_admits_with_both(stores):
    left, right = stores.shard(epoch=1), stores.shard(epoch=1)
    for number, shard in enumerate([left, right, left, right]):
        admit(shard, [pages(4)[number]])
    assert state_counts(left) == {UrlState.QUEUED: 4}


def test_an_owner_may_open_its_shard_again(stores):
    admit_and_claim(stores.shard(epoch=5), 2)
    again = stores.shard(epoch=5)
    assert state_counts(again) == {UrlState.QUEUED: 2}


def test_what_the_last_owner_had_claimed_is_queued_again(stores):
    old = stores.shard(epoch=1)
    admit(old, [*pages(3), *pages(2, "http://a.org")])
    origin = origin_id(old)
    [parsing, failed, _] = claim(old, origin)
    claim(old, origin_id(old, "http://a.org"), limit=1)
    settle(old, Settled(parsing.id, UrlState.PARSING, 200), Settled(failed.id, UrlState.FAILED))
    new = stores.shard(epoch=2)
    assert state_counts(new) == {UrlState.QUEUED: 3, UrlState.PARSING: 1, UrlState.FAILED: 1}
    assert waiting(new) == {SITE: 1, "http://a.org": 2}
    assert len(claim(new, origin)) == 1


def test_claims_of_another_owner_cannot_be_settled(stores):
    [one, _] = admit_and_claim(stores.shard(epoch=1), 2)
    new = stores.shard(epoch=2)
    settle(new, Settled(one.id, UrlState.DONE, 200))
    assert state_counts(new) == {UrlState.QUEUED: 2}


def test_a_takeover_is_a_change_of_the_crawls_that_it_queues_again(stores):
    admit_and_claim(stores.shard(epoch=1), 2)
    assert stores.shard(epoch=2).counters(CRAWL)["changes"] == 3


def test_domains_that_the_last_owner_had_wait_for_their_delay(stores):
    old = stores.shard(epoch=1)
    names = ["held.com", "later.com", "kept.com", "given.com"]
    admit(old, [url(f"http://{name}/") for name in names])
    ids = {domain.name: domain.id for domain in take_all(old)}
    with old.transaction():
        old.keep_domain(ids["held.com"], NOW + 2, 7.0)
        old.keep_domain(ids["later.com"], NOW + 99, 7.0)
        old.keep_domain(ids["kept.com"], NOW - 50, 0.5)
        old.put_domain(ids["given.com"], NOW + 3, 7.0)
    new = stores.shard(epoch=2, now=NOW + 10)
    with new.transaction():
        taken = new.take_domains(NOW + 1000, 10)
    assert {domain.name: domain.next_at for domain in taken} == {
        "held.com": NOW + 17,
        "later.com": NOW + 99,
        "kept.com": NOW + 10.5,
        "given.com": NOW + 3,
    }


def test_nothing_is_taken_when_a_new_owner_comes(stores):
    old = stores.shard(epoch=1)
    admit(old, pages(1))
    take_all(old)
    new = stores.shard(epoch=2)
    assert taken_domains(new) == {}


def test_a_domain_whose_delay_nobody_said_waits_for_the_usual_one(stores):
    old = stores.shard(epoch=1)
    admit(old, pages(1))
    take_all(old)
    new = stores.shard(epoch=2, now=NOW)
    with new.transaction():
        [domain] = new.take_domains(NOW + 1000, 10)
    assert domain.next_at == NOW + 1


def test_everything_else_stays_as_it_was(stores):
    old = stores.shard(epoch=1)
    admit(old, pages(2))
    origin = origin_id(old)
    robots = StoredRobots("rules", b"User-agent: *", NOW, NOW + 60)
    with old.transaction():
        old.keep_origin(origin, NOW + 5, b"notes")
        old.keep_robots(SITE, robots)
        old.send(CRAWL, [(3, b"[]")])
        old.receive([(2, 1)])
    new = stores.shard(epoch=2)
    [domain] = new.waiting_domains(1)
    assert (domain.origins[0].ready_at, domain.origins[0].notes) == (NOW + 5, b"notes")
    assert new.robots([SITE]).get(SITE) == robots
    assert new.outgoing({}, 10) == [Outgoing(3, 1, CRAWL, b"[]")]
    assert new.received_from(2) == 1
    assert new.counters(CRAWL)["outgoing"] == 1


LONGEST_S = 20.0


def test_where_the_last_owner_had_claimed_urls_its_longest_fetch_comes_on_top(stores):
    """It may be stopped, and its requests open."""
    old = stores.shard(epoch=1, fetches=Fetches(LONGEST_S))
    admit(old, [url(f"http://{name}/") for name in ("claimed.com", "held.com", "free.com")])
    with old.transaction():
        for name in ("claimed.com", "held.com"):
            [domain] = old.take_named([name])
            old.keep_domain(domain.id, NOW - 50, 2.0)
            if name == "claimed.com":
                old.claim(domain.origins[0].id, CRAWL, NOW, 10)
    # What counts is the last owner's time, whatever the new one's is.
    new = stores.shard(epoch=2, now=NOW + 10, fetches=Fetches(3.0))
    assert due(new) == {"claimed.com": NOW + 32, "held.com": NOW + 12, "free.com": 0}


def test_a_shard_that_was_given_back_is_not_waited_for(stores):
    old = stores.shard(epoch=1, fetches=Fetches(LONGEST_S))
    admit(old, pages(1))
    [domain] = take_all(old)
    [one] = claim(old, domain.origins[0].id)
    with old.transaction():
        old.settle([one.put_back()], NOW)
        old.put_domain(domain.id, NOW + 1, 1.0)
    assert due(stores.shard(epoch=2, now=NOW + 10)) == {"example.com": NOW + 1}


def test_nobody_waits_for_requests_that_have_ended(stores):
    """An owner that lost its shard, closed its sockets, and has it again."""
    admit_and_claim(stores.shard(epoch=1, fetches=Fetches(LONGEST_S)), 1)
    again = stores.shard(epoch=3, now=NOW, fetches=Fetches(LONGEST_S, 1))
    assert due(again) == {"example.com": 0}


def test_requests_of_another_owner_in_between_are_waited_for(stores):
    admit_and_claim(stores.shard(epoch=1, fetches=Fetches(LONGEST_S)), 1)
    other = stores.shard(epoch=2, fetches=Fetches(LONGEST_S, 1))
    claim(other, origin_id(other))
    again = stores.shard(epoch=3, now=NOW + 10, fetches=Fetches(1.0, 1))
    assert due(again) == {"example.com": NOW + 10 + LONGEST_S + 1}


def due(shard: ShardStore) -> dict[str, float]:
    return {domain.name: domain.next_at for domain in shard.waiting_domains(10)}
