"""What anybody can read beside the owner."""

from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import COUNTERS, Layout, Settled
from manyhands.shared.crawl.store.tally import MOST_REASONS, OTHER_REASONS
from tests.contract.state.helpers import (
    CRAWL,
    NOW,
    SITE,
    admit,
    admit_and_claim,
    pages,
    settle,
    state_counts,
    waiting,
)


def test_a_shard_that_had_no_owner_has_no_reader(stores):
    assert stores.reader(7) is None


def test_a_reader_sees_what_was_committed_and_nothing_else(stores, shard):
    reader = stores.reader()
    assert reader.counters(CRAWL) == dict.fromkeys(COUNTERS, 0)
    with shard.transaction():
        shard.admit(CRAWL, pages(3), NOW)
        assert waiting(reader) == {}
    assert waiting(reader) == {SITE: 3}
    assert state_counts(reader) == {UrlState.QUEUED: 3}


def test_the_owner_sees_its_own_counters_within_a_transaction(shard):
    with shard.transaction():
        shard.admit(CRAWL, pages(3), NOW)
        assert shard.counters(CRAWL)["queued"] == 3
        shard.admit(CRAWL, pages(5), NOW)
        assert shard.counters(CRAWL)["queued"] == 5
    assert shard.counters(CRAWL)["changes"] == 1


def test_urls_come_page_by_page(stores, shard):
    admit(shard, pages(3), crawl=2)
    claimed = admit_and_claim(shard, 5)
    settle(shard, *(Settled(one.id, UrlState.FAILED, reason="dns") for one in claimed[:4]))
    reader = stores.reader()
    first = reader.urls(CRAWL, UrlState.FAILED, 0, 3)
    rest = reader.urls(CRAWL, UrlState.FAILED, first[-1].id, 3)
    assert [row.url for row in (*first, *rest)] == [f"{SITE}/{number}" for number in range(4)]
    assert [row.url for row in reader.urls(CRAWL, UrlState.CLAIMED, 0, 9)] == [f"{SITE}/4"]
    assert reader.urls(CRAWL, UrlState.DISALLOWED, 0, 9) == []
    assert len(reader.urls(2, UrlState.QUEUED, 0, 2)) == 2


def test_errors_are_grouped_by_their_reason(stores, shard):
    claimed = admit_and_claim(shard, 4)
    outcomes = [
        Settled(claimed[0].id, UrlState.FAILED, reason="dns"),
        Settled(claimed[1].id, UrlState.QUEUED, reason="time-out"),
        Settled(claimed[2].id, UrlState.QUEUED, reason="time-out"),
        Settled(claimed[3].id, UrlState.PARSING, 200),
    ]
    for later, outcome in enumerate(outcomes):
        settle(shard, outcome, now=NOW + later)
    first, second = stores.reader().errors(CRAWL)
    assert (first.reason, first.count, first.sample_url) == ("time-out", 2, f"{SITE}/1")
    assert (first.first_at, first.last_at) == (NOW + 1, NOW + 2)
    assert (second.reason, second.count) == ("dns", 1)
    assert stores.reader().errors(CRAWL + 1) == []


def test_reasons_beyond_a_number_are_counted_together(shard):
    claimed = admit_and_claim(shard, MOST_REASONS + 50)
    for half in (claimed[::2], claimed[1::2]):
        settle(shard, *(Settled(one.id, UrlState.FAILED, reason=one.url) for one in half))
    groups = shard.errors(CRAWL)
    assert len(groups) == MOST_REASONS + 1
    assert groups[0].reason == OTHER_REASONS
    assert groups[0].count == 50


def test_all_shards_that_had_an_owner_are_read_together(stores):
    readers, layout = stores.readers(), Layout(generation=1, shards=4, wanted=4, most_ever=4)
    assert readers.counters(layout, CRAWL) == []
    for number, site in ((1, "http://a.com"), (3, "http://b.com")):
        owned = stores.shard(epoch=1, number=number)
        with owned.transaction():
            owned.admit(CRAWL, pages(number, site), NOW, are_seeds=True)
            for domain in owned.take_domains(NOW, 1):
                owned.keep_origin(domain.origins[0].id, NOW + number, b"")
                [claimed, *_] = owned.claim(domain.origins[0].id, CRAWL, NOW, 1)
        settle(owned, Settled(claimed.id, UrlState.QUEUED, reason="time-out"))
    assert [one["queued"] for one in readers.counters(layout, CRAWL)] == [1, 3]
    assert [one.count for one in readers.errors(layout, CRAWL)] == [1, 1]
    assert readers.seed_names(layout, CRAWL, 9) == ["a.com", "b.com"]
    assert len(readers.seed_names(layout, CRAWL, 1)) == 1
    put_off = readers.put_off_of(layout, CRAWL, NOW, 9)
    assert [(one.origin, one.ready_at) for one in put_off] == [
        ("http://a.com", NOW + 1),
        ("http://b.com", NOW + 3),
    ]
    assert readers.counters(layout, CRAWL + 1) == [dict.fromkeys(COUNTERS, 0)] * 2


def test_what_has_arrived_in_several_shards_is_read_together(stores):
    readers, layout = stores.readers(), Layout(generation=1, shards=4, wanted=4, most_ever=4)
    target = stores.shard(epoch=1, number=2)
    with target.transaction():
        assert len(target.receive([(0, 1), (0, 2), (3, 1), (1, 2)])) == 4
    wanted = {2: [0, 1, 3], 3: [2]}
    assert readers.received(layout, wanted) == {2: {0: 2, 1: 0, 3: 1}, 3: {2: 0}}
