"""What anybody can read beside the owner."""

from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import COUNTERS, Settled
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
