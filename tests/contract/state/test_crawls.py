"""Crawls, their seeds, and what operators order."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from manyhands.shared.crawl.spec import CrawlSpec, LimitSpec
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.model import DomainRule, KeyConflict, NewCrawl, NoSuchCrawl
from manyhands.shared.crawl.store.protocol import ControlStore
from manyhands.shared.urls import parse_url, registrable_domain, shard_of_domain
from tests.contract.state.helpers import NOW

MUCH = 1_000_000
SPEC = CrawlSpec(contact="me@example.org", limits=LimitSpec(pages=9), labels={"team": "é"})


def create(control: ControlStore, key: str | None = None, fingerprint: bytes = b"f") -> int:
    crawl, _ = control.create_crawl(NewCrawl(SPEC, key, fingerprint), NOW)
    return crawl.id


def test_a_crawl_is_kept_as_it_was_asked_for(stores, control):
    crawl, is_new = control.create_crawl(NewCrawl(SPEC, None, b"f"), NOW)
    assert is_new
    assert crawl.spec == SPEC
    assert (crawl.state, crawl.ends_as, crawl.reason) == (CrawlState.STARTING, None, "")
    assert (crawl.created_at, crawl.started_at, crawl.ended_at) == (NOW, None, None)
    assert (crawl.has_all_seeds, crawl.seed_file_lines) == (False, 0)
    assert stores.control().crawl(crawl.id) == crawl


def test_a_crawl_comes_with_its_first_seeds_and_once(control):
    seeds = {0: ["http://a.com/"], 3: ["http://b.org/", "http://b.org/2"]}
    crawl, _ = control.create_crawl(NewCrawl(SPEC, "key", b"f", seeds, has_all_seeds=True), NOW)
    again, is_new = control.create_crawl(
        NewCrawl(SPEC, "key", b"f", seeds, has_all_seeds=True), NOW
    )
    assert (again, is_new) == (crawl, False)
    assert crawl.has_all_seeds
    assert [batch.urls for shard in seeds for batch in control.seeds(shard, 9)] == [*seeds.values()]
    assert control.shards_with_orders() == seeds.keys()


def test_a_crawl_whose_seeds_cannot_be_stored_is_not_there(control):
    with pytest.raises(TypeError):
        control.create_crawl(NewCrawl(SPEC, None, b"f", {0: [object()]}), NOW)  # type: ignore[list-item]
    assert control.crawls(0, 9, max_bytes=MUCH) == []


def test_a_store_has_a_tag_that_stays(stores, control):
    assert control.tag() == stores.control().tag() != ""


def test_a_crawl_that_is_not_there_is_said_to_be_missing(control):
    with pytest.raises(NoSuchCrawl, match="7"):
        control.crawl(7)
    with pytest.raises(NoSuchCrawl):
        control.change_state(7, [CrawlState.RUNNING], CrawlState.PAUSED, NOW)
    with pytest.raises(NoSuchCrawl):
        control.add_seeds(7, {0: ["http://a.com/"]})
    with pytest.raises(NoSuchCrawl):
        control.all_seeds_added(7)
    assert control.version() == 0


def test_a_key_that_comes_again_gives_the_same_crawl(control):
    first = create(control, "key")
    again, is_new = control.create_crawl(NewCrawl(SPEC, "key", b"f"), NOW + 5)
    assert (again.id, again.created_at, is_new) == (first, NOW, False)
    assert create(control, "other") != first
    assert create(control) != create(control)


def test_a_key_that_comes_with_another_request_is_refused(control):
    create(control, "key")
    with pytest.raises(KeyConflict):
        control.create_crawl(NewCrawl(SPEC, "key", b"other"), NOW)


def test_crawls_are_listed_newest_first(control):
    ids = [create(control) for _ in range(5)]
    control.change_state(ids[1], [CrawlState.STARTING], CrawlState.RUNNING, NOW)
    first = control.crawls(0, 2, max_bytes=MUCH)
    assert [crawl.id for crawl in first] == [ids[4], ids[3]]
    assert [crawl.id for crawl in control.crawls(first[-1].id, 9, max_bytes=MUCH)] == [
        ids[2],
        ids[1],
        ids[0],
    ]
    assert [crawl.id for crawl in control.crawls(0, 9, CrawlState.RUNNING, max_bytes=MUCH)] == [
        ids[1]
    ]


def test_a_listing_ends_where_it_would_be_too_large_or_after_one_that_is(control):
    large = SPEC.model_copy(update={"labels": {"much": "x" * 1000}})
    ids = [control.create_crawl(NewCrawl(large, None, b"f"), NOW)[0].id for _ in range(4)]
    assert [crawl.id for crawl in control.crawls(0, 9, max_bytes=3500)] == [ids[3], ids[2]]
    assert [crawl.id for crawl in control.crawls(ids[2], 9, max_bytes=500)] == [ids[1]]
    assert [crawl.id for crawl in control.crawls(0, 9, max_bytes=0)] == [ids[3]]


def test_states_are_told_without_what_was_asked_for(control):
    ids = [create(control) for _ in range(3)]
    control.change_state(ids[1], [CrawlState.STARTING], CrawlState.RUNNING, NOW)
    starting, running = CrawlState.STARTING, CrawlState.RUNNING
    assert control.crawl_states(0) == list(zip(ids, [starting, running, starting], strict=True))
    assert control.crawl_states(ids[1]) == [(ids[2], starting)]


def test_a_crawl_lives_until_a_final_state(control):
    states = list(CrawlState)
    ids = [create(control) for _ in states]
    for number, state in zip(ids, states, strict=True):
        assert control.change_state(number, [CrawlState.STARTING], state, NOW)
    live = {crawl.state for crawl in control.live_crawls()}
    assert live == {state for state in CrawlState if not state.is_final}


def test_a_state_changes_only_from_what_was_expected(control):
    number = create(control)
    version = control.version()
    assert not control.change_state(number, [CrawlState.RUNNING], CrawlState.PAUSED, NOW)
    assert control.version() == version
    assert control.crawl(number).state is CrawlState.STARTING


def test_a_crawl_remembers_when_it_began_and_ended_and_why(control):
    number = create(control)
    expected = list(CrawlState)
    control.change_state(number, expected, CrawlState.RUNNING, NOW + 1)
    control.change_state(number, expected, CrawlState.PAUSED, NOW + 2)
    control.change_state(number, expected, CrawlState.RUNNING, NOW + 3)
    control.change_state(
        *(number, expected, CrawlState.STOPPING, NOW + 4),
        reason="9 pages",
        ends_as=CrawlState.LIMIT_REACHED,
    )
    stopping = control.crawl(number)
    assert (stopping.ends_as, stopping.reason) == (CrawlState.LIMIT_REACHED, "9 pages")
    assert (stopping.started_at, stopping.ended_at) == (NOW + 1, None)
    control.change_state(number, expected, CrawlState.LIMIT_REACHED, NOW + 5, reason="9 pages")
    ended = control.crawl(number)
    assert (ended.state, ended.reason) == (CrawlState.LIMIT_REACHED, "9 pages")
    assert (ended.started_at, ended.ended_at) == (NOW + 1, NOW + 5)


def test_seeds_wait_for_the_owner_of_their_shard(control):
    number = create(control)
    control.add_seeds(number, {0: ["http://a.com/"], 3: ["http://b.com/", "http://c.com/é"]})
    [batch] = control.seeds(3, 10)
    assert (batch.crawl, batch.urls) == (number, ["http://b.com/", "http://c.com/é"])
    assert control.seeds_waiting(number) == 2
    control.seeds_taken([batch.id])
    assert control.seeds(3, 10) == []
    assert control.seeds_waiting(number) == 1


def test_many_seeds_are_many_batches(control):
    number = create(control)
    urls = [f"http://a.com/{place}" for place in range(2500)]
    control.add_seeds(number, {0: urls})
    batches = control.seeds(0, 100)
    assert len(batches) > 1
    assert [url for batch in batches for url in batch.urls] == urls
    assert len(control.seeds(0, 1)) == 1


def test_a_seed_file_is_read_in_parts(control):
    number = create(control)
    control.seed_file_read(number, 100, {0: ["http://a.com/"]})
    crawl = control.crawl(number)
    assert (crawl.seed_file_lines, crawl.has_all_seeds) == (100, False)
    control.all_seeds_added(number, 120)
    crawl = control.crawl(number)
    assert (crawl.seed_file_lines, crawl.has_all_seeds) == (120, True)
    control.all_seeds_added(number)
    assert control.crawl(number).seed_file_lines == 120


def test_seeds_and_purges_go_to_their_shards_when_the_count_changes(control):
    number = create(control)
    control.layout(1)
    urls = [f"http://www.site{place}.com/" for place in range(50)]
    control.add_seeds(number, {0: urls})
    control.order_purge(0, number, "site7.com")
    control.finish_reshard(2, 8)
    found = {
        shard: [url for batch in control.seeds(shard, 99) for url in batch.urls]
        for shard in range(8)
    }
    assert sorted(url for of_shard in found.values() for url in of_shard) == sorted(urls)
    for shard, of_shard in found.items():
        for url in of_shard:
            assert shard_of_domain(registrable_domain(parse_url(url).host), 8) == shard
    assert [purge.domain for purge in control.purges(shard_of_domain("site7.com", 8))] == [
        "site7.com"
    ]


def test_the_last_rule_of_a_domain_counts(control):
    control.set_rule(DomainRule(None, "a.com", 5.0, False))
    control.set_rule(DomainRule(3, "a.com", None, True))
    control.set_rule(DomainRule(None, "a.com", 7.5, False))
    assert control.rules() == [
        DomainRule(None, "a.com", 7.5, False),
        DomainRule(3, "a.com", None, True),
    ]


def test_a_rule_changes_in_part_and_an_empty_one_is_none(control):
    def pause(rule):
        return replace(rule, is_paused=True)

    assert control.change_rule(None, "a.com", pause) == DomainRule(None, "a.com", is_paused=True)
    control.set_rule(DomainRule(3, "a.com", 5.0))
    before = control.version()
    assert control.change_rule(3, "a.com", pause) == DomainRule(3, "a.com", 5.0, is_paused=True)
    assert control.version() > before
    assert len(control.rules()) == 2
    control.change_rule(3, "a.com", lambda rule: replace(rule, is_paused=False))
    assert control.change_rule(None, "a.com", lambda rule: replace(rule, is_paused=False)).is_empty
    assert control.rules() == [DomainRule(3, "a.com", 5.0)]


def test_purges_wait_for_the_owner_of_their_shard(control):
    control.order_purge(1, 5, "a.com")
    control.order_purge(2, 5, "b.com")
    [purge] = control.purges(1)
    assert (purge.crawl, purge.domain) == (5, "a.com")
    assert control.shards_with_orders() == {1, 2}
    control.purge_done(purge.id)
    assert (control.purges(1), len(control.purges(2))) == ([], 1)
    assert control.shards_with_orders() == {2}


def test_no_more_pages_are_granted_than_a_crawl_may_have(control):
    assert control.grant_pages(1, "a", 40, 100) == 40
    assert control.grant_pages(1, "b", 40, 100) == 40
    assert control.grant_pages(1, "a", 40, 100) == 20
    assert control.grant_pages(1, "b", 40, 100) == 0
    assert control.grant_pages(2, "b", 40, 100) == 40
    control.return_pages(1, "a", 15)
    assert control.grant_pages(1, "b", 40, 100) == 15


def test_pages_of_the_dead_are_given_again_unless_somebody_was_given_some_since(control):
    control.grant_pages(1, "dead", 80, 100)
    control.grant_pages(1, "alive", 20, 100)
    control.return_pages(1, "alive", 5)
    assert control.granted_pages(1) == 95
    assert control.grant_pages(1, "alive", 1, 100) == 1
    assert not control.reset_pages(1, used=40, granted=95)
    assert control.granted_pages(1) == 96
    assert control.reset_pages(1, used=40, granted=96)
    assert control.grant_pages(1, "alive", 100, 100) == 60


def test_notes_come_newest_first(control):
    for later in range(3):
        control.note(1, f"note {later}", NOW + later)
    control.note(2, "of another crawl", NOW)
    assert control.notes(1, 2) == [(NOW + 2, "note 2"), (NOW + 1, "note 1")]


def test_every_change_is_a_new_version_for_all(stores, control):
    other = stores.control()
    seen = [other.version()]
    number = create(control)
    changes: list[Callable[[], object]] = [
        lambda: control.add_seeds(number, {0: ["http://a.com/"]}),
        lambda: control.seeds_taken([1]),
        lambda: control.all_seeds_added(number),
        lambda: control.change_state(number, [CrawlState.STARTING], CrawlState.RUNNING, NOW),
        lambda: control.set_rule(DomainRule(None, "a.com", None, True)),
        lambda: control.order_purge(0, number, "a.com"),
        lambda: control.purge_done(1),
    ]
    for change in changes:
        seen.append(other.version())
        change()
    seen.append(other.version())
    assert seen == sorted(set(seen))
