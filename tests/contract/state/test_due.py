"""What could be fetched at this moment: how late the frontier is."""

from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import Due, Layout, Settled
from manyhands.shared.crawl.store.protocol import ShardReader
from manyhands.shared.crawl.store.schema_words import MOST_DUE
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
    take_all,
)

OTHER = "http://other.net"
LATER = NOW + 100


def due(reader: ShardReader, now: float = LATER, *crawls: int, is_owned: bool = True) -> list[Due]:
    return reader.due(crawls or (CRAWL,), now, is_owned=is_owned)


def test_of_a_domain_one_url_is_due_since_it_was_admitted(shard):
    assert due(shard) == []
    admit(shard, [*pages(5), *pages(3, "http://example.com")])
    assert due(shard) == [Due(CRAWL, 1, NOW)]
    admit(shard, pages(1, OTHER))
    assert due(shard) == [Due(CRAWL, 2, NOW)]


def test_each_crawl_has_what_is_its_own(shard):
    admit(shard, pages(2), crawl=1)
    admit(shard, [*pages(2), *pages(1, OTHER)], crawl=2)
    assert sorted(due(shard, LATER, 1, 2, 3)) == [Due(1, 1, NOW), Due(2, 2, NOW)]
    assert due(shard, LATER, 3) == []


def test_a_domain_is_due_at_its_time(shard):
    admit(shard, pages(1))
    [domain] = take_all(shard)
    with shard.transaction():
        shard.put_domain(domain.id, NOW + 30, 1.0)
    assert due(shard, NOW + 29) == []
    assert due(shard, NOW + 40) == [Due(CRAWL, 1, NOW + 30)]


def test_a_host_and_a_url_are_due_at_theirs(shard):
    [claimed] = admit_and_claim(shard, 1)
    settle(shard, Settled(claimed.id, UrlState.QUEUED, reason="time-out", not_before=NOW + 10))
    assert due(shard, NOW + 9) == []
    assert due(shard, NOW + 15) == [Due(CRAWL, 1, NOW + 10)]
    with shard.transaction():
        shard.keep_origin(origin_id(shard), NOW + 20, b"")
    assert due(shard, NOW + 15) == []
    assert due(shard, NOW + 25) == [Due(CRAWL, 1, NOW + 20)]


def test_what_is_claimed_is_not_due(shard):
    admit(shard, pages(2))
    claim(shard, origin_id(shard), 2)
    assert due(shard) == []


def test_what_an_owner_has_in_memory_counts_only_when_it_is_gone(shard):
    admit(shard, pages(2))
    take_all(shard)
    assert due(shard) == []
    assert due(shard, is_owned=False) == [Due(CRAWL, 1, NOW)]


def test_no_more_domains_are_looked_at_than_a_scrape_can_bear(shard):
    admit(shard, [url for n in range(MOST_DUE + 7) for url in pages(1, f"http://site{n}.org")])
    assert due(shard) == [Due(CRAWL, MOST_DUE, NOW)]


def test_shards_with_and_without_an_owner_are_asked_together(stores):
    readers, layout = stores.readers(), Layout(generation=1, shards=4, wanted=4, most_ever=4)
    assert readers.due(layout, [CRAWL], LATER, {1}) == []
    for number, site in ((1, SITE), (3, OTHER)):
        owned = stores.shard(epoch=1, number=number)
        admit(owned, pages(number, site))
        take_all(owned)
    assert readers.due(layout, [CRAWL], LATER, {1, 3}) == []
    assert readers.due(layout, [CRAWL], LATER, {1}) == [Due(CRAWL, 1, NOW)]
    assert readers.due(layout, [CRAWL], LATER, ()) == [Due(CRAWL, 1, NOW)] * 2
