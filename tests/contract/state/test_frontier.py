"""Admission, claims, and how a URL goes on."""

import pytest

from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import Admitted, ClaimedUrl, Claims, Settled, Unparsed
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
    states,
    take_all,
    taken_domains,
    url,
    waiting,
)

QUEUED, CLAIMED, PARSING, DONE = list(UrlState)[:4]


# Admission


def test_new_urls_are_queued_and_counted(shard):
    assert admit(shard, pages(3)) == Admitted(new=3)
    counters = shard.counters(CRAWL)
    assert counters["queued"] == counters["admitted"] == 3
    assert waiting(shard) == {SITE: 3}


def test_a_url_is_admitted_once(shard):
    admit(shard, pages(3))
    assert admit(shard, pages(5)) == Admitted(new=2, duplicates=3)
    assert shard.counters(CRAWL)["duplicates"] == 3
    assert state_counts(shard) == {QUEUED: 5}


def test_a_key_that_is_twice_in_one_call_is_admitted_once(shard):
    assert admit(shard, [*pages(2), *pages(2)]) == Admitted(new=2, duplicates=2)


def test_more_urls_than_one_statement_takes_are_admitted_once_each(shard):
    assert admit(shard, [*pages(2500), *pages(1200)]) == Admitted(new=2500, duplicates=1200)
    assert waiting(shard) == {SITE: 2500}


def test_two_crawls_see_the_same_url_apart(shard):
    admit(shard, pages(2), crawl=1)
    assert admit(shard, pages(3), crawl=2) == Admitted(new=3)
    assert shard.counters(1)["queued"] == 2
    assert waiting(shard) == {SITE: 5}


def test_no_urls_at_all_change_nothing(shard):
    assert admit(shard, []) == Admitted()
    assert shard.counters(CRAWL)["changes"] == 0


def test_a_host_takes_no_more_urls_than_its_limit(shard):
    other = "http://shop.example.com"
    with shard.transaction():
        first = shard.admit(CRAWL, [*pages(4), *pages(2, other)], NOW, host_limit=3)
        again = shard.admit(CRAWL, [*pages(5), *pages(5, other)], NOW, host_limit=3)
    assert first == Admitted(new=5, over_host_limit=1)
    assert again == Admitted(new=1, duplicates=5, over_host_limit=4)
    assert shard.counters(CRAWL)["over_host_limit"] == 5


def test_a_key_that_is_twice_in_one_call_uses_up_one_place_of_its_host(shard):
    with shard.transaction():
        admitted = shard.admit(CRAWL, [*pages(2), *pages(3)], NOW, host_limit=3)
    assert admitted == Admitted(new=3, duplicates=2)


def test_the_limit_of_a_host_is_that_of_each_crawl(shard):
    with shard.transaction():
        shard.admit(1, pages(3), NOW, host_limit=3)
        assert shard.admit(2, pages(3), NOW, host_limit=3) == Admitted(new=3)


def test_urls_that_ended_still_count_for_the_limit_of_their_host(shard):
    claimed = admit_and_claim(shard, 2)
    settle(shard, *(Settled(one.id, UrlState.FAILED, reason="dns") for one in claimed))
    with shard.transaction():
        assert shard.admit(CRAWL, [url(f"{SITE}/9")], NOW, host_limit=2).over_host_limit == 1


def test_only_hosts_and_domains_of_seeds_are_in_scope_where_that_is_asked(shard):
    with shard.transaction():
        shard.admit(CRAWL, [url("http://www.example.com:8080/")], NOW, are_seeds=True)
        admitted = shard.admit(
            CRAWL,
            [
                url("https://www.example.com/a", scope_name="www.example.com"),
                url("https://shop.example.com/", scope_name="example.com"),
                url("https://shop.example.com/b", scope_name="shop.example.com"),
                url("https://shop.example.com/c"),
            ],
            NOW,
        )
    assert admitted == Admitted(new=3, out_of_scope=1)
    assert shard.counters(CRAWL)["out_of_scope"] == 1


def test_the_seeds_of_one_crawl_are_not_those_of_another(shard):
    with shard.transaction():
        shard.admit(1, [url(f"{SITE}/")], NOW, are_seeds=True)
        assert shard.admit(2, [url(f"{SITE}/", scope_name="www.example.com")], NOW).out_of_scope


def test_an_address_is_the_name_of_its_seeds(shard):
    with shard.transaction():
        shard.admit(CRAWL, [url("http://[::1]:8080/")], NOW, are_seeds=True)
        assert shard.admit(CRAWL, [url("http://[::1]/a", scope_name="::1")], NOW).new == 1


def test_a_transaction_that_fails_changes_nothing(shard):
    admit(shard, pages(1))
    with pytest.raises(ZeroDivisionError), shard.transaction():
        shard.admit(CRAWL, pages(9), NOW)
        shard.count(CRAWL, {"links": 9})
        raise ZeroDivisionError
    assert state_counts(shard) == {QUEUED: 1}
    assert shard.counters(CRAWL)["links"] == 0
    assert admit(shard, pages(2)) == Admitted(new=1, duplicates=1)


def test_every_transaction_that_touches_a_crawl_changes_its_changes(shard):
    admit(shard, pages(2))
    admit(shard, pages(2))
    before = shard.counters(CRAWL)["changes"]
    admit(shard, pages(2), crawl=2)
    with shard.transaction():
        shard.admit(CRAWL, pages(3), NOW)
        shard.count(CRAWL, {"links": 3})
    assert (before, shard.counters(CRAWL)["changes"]) == (2, 3)


# Domains and origins


def test_domains_come_once_and_the_earliest_first(shard):
    names = ["a.com", "b.com", "c.com", "d.com"]
    admit(shard, [url(f"http://{name}/") for name in names])
    domains = {domain.name: domain.id for domain in take_all(shard)}
    with shard.transaction():
        for name, next_at in zip(names, (NOW + 3, NOW + 1, NOW + 9, NOW + 2), strict=True):
            shard.put_domain(domains[name], next_at, 1.0)
        first = shard.take_domains(NOW + 5, 2)
        second = shard.take_domains(NOW + 5, 2)
        third = shard.take_domains(NOW + 5, 2)
    assert [domain.name for domain in first] == ["b.com", "d.com"]
    assert [(domain.name, domain.next_at) for domain in second] == [("a.com", NOW + 3)]
    assert third == []


def test_a_domain_comes_with_the_delay_that_was_last_said(shard):
    admit(shard, pages(1))
    [domain] = take_all(shard)
    with shard.transaction():
        shard.put_domain(domain.id, NOW, 12.5)
    [again] = take_all(shard)
    assert (domain.delay_s, again.delay_s) == (1.0, 12.5)


def test_a_domain_that_is_kept_stays_taken(shard):
    admit(shard, pages(1))
    [domain] = take_all(shard)
    with shard.transaction():
        shard.keep_domain(domain.id, NOW - 5, 1.0)
    assert take_all(shard) == []


def test_a_domain_comes_with_its_origins_that_have_urls(shard):
    admit(
        shard, [*pages(2), *pages(1, "https://www.example.com"), *pages(1, "http://x.example.com")]
    )
    claim(shard, origin_id(shard, "http://x.example.com"))
    with shard.transaction():
        shard.keep_origin(origin_id(shard), NOW + 60, b'{"blocked": 1}')
    [domain] = take_all(shard)
    assert domain.name == "example.com"
    assert [(one.origin, one.queued, one.ready_at, one.notes) for one in domain.origins] == [
        ("https://www.example.com", 1, 0.0, b""),
        ("http://www.example.com", 2, NOW + 60, b'{"blocked": 1}'),
    ]


def test_of_a_domain_with_many_origins_the_hundred_earliest_come(shard):
    admit(shard, [url(f"http://h{number}.example.com/") for number in range(130)])
    ids = {one.origin: one.id for domain in take_all(shard) for one in domain.origins}
    assert len(ids) == 100
    with shard.transaction():
        for number in ids.values():
            shard.keep_origin(number, NOW + 60, b"")
        [again] = shard.take_named(["example.com"])
    assert len(again.origins) == 100
    assert [one.ready_at for one in again.origins] == [0.0] * 30 + [NOW + 60] * 70


def test_a_domain_can_be_taken_by_its_name_whoever_has_it(shard):
    admit(shard, pages(1))
    take_all(shard)
    with shard.transaction():
        shard.admit(CRAWL, pages(1, "http://new.example.com"), NOW)
        [domain] = shard.take_named(["example.com", "example.org"])
    assert {one.origin for one in domain.origins} == {SITE, "http://new.example.com"}


def test_a_domain_without_urls_waiting_is_not_given(shard):
    admit_and_claim(shard, 2)
    assert take_all(shard) == []
    with shard.transaction():
        assert shard.take_named(["example.com"]) == []


def test_a_domain_is_taken_until_it_is_given_up(shard):
    admit(shard, [url("http://a.com/"), url("http://b.com/"), url("http://c.com/")])
    assert taken_domains(shard) == {}
    with shard.transaction():
        [first] = shard.take_domains(NOW, 1)
        [second] = shard.take_named(["b.com"])
        assert [domain.name for domain in shard.taken_domains()] == ["a.com", "b.com"]
        shard.keep_domain(first.id, NOW + 5, 2.5)
        shard.put_domain(second.id, NOW, 1.0)
        # What the transaction changed before counts.
        assert [domain.name for domain in shard.taken_domains()] == ["a.com"]
    [kept] = taken_domains(shard).values()
    assert (kept.id, kept.name, kept.next_at, kept.delay_s) == (first.id, "a.com", NOW + 5, 2.5)


def test_the_domains_that_are_taken_stay_as_they_are(shard):
    admit(shard, pages(2))
    take_all(shard)
    before = taken_domains(shard)
    assert taken_domains(shard) == before
    assert take_all(shard) == []
    with shard.transaction():
        shard.put_domain(before["example.com"].id, NOW, 1.0)
    assert taken_domains(shard) == {}
    assert len(take_all(shard)) == 1


def test_a_taken_domain_is_told_with_its_origins_that_have_urls(shard):
    admit(shard, [*pages(2), *pages(1, "http://x.example.com")])
    take_all(shard)
    claim(shard, origin_id(shard, "http://x.example.com"))
    with shard.transaction():
        shard.keep_origin(origin_id(shard), NOW + 60, b"notes")
    [domain] = taken_domains(shard).values()
    assert [(one.origin, one.queued, one.ready_at, one.notes) for one in domain.origins] == [
        (SITE, 2, NOW + 60, b"notes")
    ]


def test_a_taken_domain_is_told_only_while_urls_of_it_wait(shard):
    admit(shard, pages(1))
    take_all(shard)
    [one] = claim(shard, origin_id(shard))
    assert taken_domains(shard) == {}
    settle(shard, Settled(one.id, QUEUED, not_before=NOW + 60))
    assert set(taken_domains(shard)) == {"example.com"}
    with shard.transaction():
        shard.purge(CRAWL, "example.com", 9)
        assert shard.taken_domains() == []


def test_the_domains_with_most_urls_waiting_are_shown_first(shard):
    admit(shard, [*pages(2, "http://a.com"), *pages(3, "http://b.com"), *pages(1, "http://c.com")])
    assert [domain.name for domain in shard.waiting_domains(2)] == ["b.com", "a.com"]


# Claims


def test_claims_come_in_order_of_arrival_and_only_once(shard):
    admit(shard, [url(f"{SITE}/{name}", depth=2) for name in "cab"])
    origin = origin_id(shard)
    first, second = claim(shard, origin, limit=2), claim(shard, origin, limit=2)
    assert [one.url for one in (*first, *second)] == [f"{SITE}/{name}" for name in "cab"]
    assert state_counts(shard) == {CLAIMED: 3}
    one = first[0]
    expected = url(f"{SITE}/c", depth=2)
    assert (one.key, one.crawl, one.depth, one.redirects, one.attempts) == (
        expected.key,
        CRAWL,
        2,
        0,
        0,
    )


def test_claims_are_those_of_one_crawl(shard):
    admit(shard, pages(1), crawl=1)
    admit(shard, pages(2), crawl=2)
    assert len(claim(shard, origin_id(shard), crawl=2)) == 2
    assert waiting(shard) == {SITE: 1}


def test_what_was_put_off_comes_when_it_is_due_after_what_never_was_tried(shard):
    [first, *_] = admit_and_claim(shard, 1)
    settle(shard, Settled(first.id, QUEUED, attempts=1, not_before=NOW + 10))
    admit(shard, [url(f"{SITE}/new")])
    origin = origin_id(shard)
    assert [one.url for one in claim(shard, origin)] == [f"{SITE}/new"]
    nothing = {origin: Claims([], None, is_all=True)}
    with shard.transaction():
        assert shard.claim_each({origin: 1}, [CRAWL], NOW) == {origin: Claims([], NOW + 10)}
        assert shard.claim_each({origin: 1}, [CRAWL + 1], NOW) == nothing
        assert shard.claim_each({origin: 1}, [], NOW) == nothing
    assert claim(shard, origin, now=NOW + 9) == []
    [again] = claim(shard, origin, now=NOW + 10)
    assert (again.url, again.attempts) == (first.url, 1)


def test_the_earliest_time_is_that_of_any_of_the_crawls(shard):
    admit(shard, pages(1), crawl=1)
    admit(shard, pages(1), crawl=2)
    origin = origin_id(shard)
    for crawl, at in ((1, NOW + 9), (2, NOW + 5)):
        [one] = claim(shard, origin, crawl=crawl)
        settle(shard, Settled(one.id, QUEUED, not_before=at))
    with shard.transaction():
        assert shard.claim_each({origin: 1}, [1, 2, 3], NOW) == {origin: Claims([], NOW + 5)}


def test_crawls_share_what_is_claimed_and_one_gets_what_the_other_leaves(shard):
    for crawl, number in ((1, 6), (2, 1), (3, 6)):
        admit(shard, pages(number), crawl=crawl)
        admit(shard, pages(number, "http://b.com"), crawl=crawl)
    ids = {one.origin: one.id for domain in take_all(shard) for one in domain.origins}
    first, second = ids[SITE], ids["http://b.com"]
    with shard.transaction():
        claims = shard.claim_each({first: 6, second: 1}, [1, 2, 3], NOW)
    of_crawls = {origin: [one.crawl for one in found.urls] for origin, found in claims.items()}
    assert of_crawls == {first: [1, 1, 2, 3, 3, 3], second: [1]}
    assert [claims[origin].due_at for origin in (first, second)] == [None, None]
    for crawl, queued, claimed in ((1, 9, 3), (2, 1, 1), (3, 9, 3)):
        counters = shard.counters(crawl)
        assert (counters["queued"], counters["claimed"]) == (queued, claimed)
    assert waiting(shard) == {SITE: 7, "http://b.com": 12}


# Ends


@pytest.mark.parametrize(
    ("state", "status", "pages", "bytes_"),
    [
        (UrlState.FAILED, 404, 1, 700),
        (UrlState.FAILED, 0, 0, 0),
        (UrlState.SKIPPED, 200, 1, 700),
        (UrlState.DONE, 200, 1, 700),
        (UrlState.PARSING, 200, 1, 700),
        (UrlState.REDIRECTED, 301, 0, 0),
        (UrlState.DISALLOWED, 0, 0, 0),
        (UrlState.QUEUED, 503, 0, 0),
    ],
)
def test_an_answer_that_is_no_redirect_is_a_page(shard, state, status, pages, bytes_):
    [one] = admit_and_claim(shard, 1)
    settle(shard, Settled(one.id, state, status=status, size=700))
    counters = shard.counters(CRAWL)
    assert (counters["pages"], counters["bytes"]) == (pages, bytes_)
    assert state_counts(shard) == {state: 1}


def test_what_is_queued_again_waits_again(shard):
    [one] = admit_and_claim(shard, 1)
    assert waiting(shard) == {}
    settle(shard, Settled(one.id, QUEUED, not_before=NOW + 5))
    assert waiting(shard) == {SITE: 1}


def test_a_row_says_how_far_it_is(shard):
    [one] = admit_and_claim(shard, 1)
    failed = Settled(one.id, UrlState.FAILED, 500, "server error", 9, attempts=3)
    settle(shard, failed, now=NOW + 4)
    [row] = shard.urls(CRAWL, UrlState.FAILED, 0, 10)
    assert (row.url, row.status, row.reason, row.attempts, row.updated_at) == (
        f"{SITE}/0",
        500,
        "server error",
        3,
        NOW + 4,
    )


def test_only_what_is_claimed_can_be_settled(shard):
    [one] = admit_and_claim(shard, 1)
    settle(shard, Settled(one.id, UrlState.FAILED, reason="dns"))
    settle(shard, Settled(one.id, UrlState.DONE, 200), Settled(12345, UrlState.DONE, 200))
    assert state_counts(shard) == {UrlState.FAILED: 1}
    assert shard.counters(CRAWL)["pages"] == 0


def test_a_url_that_is_settled_twice_at_once_is_settled_the_first_way(shard):
    [one] = admit_and_claim(shard, 1)
    settle(shard, Settled(one.id, UrlState.FAILED, 500), Settled(one.id, QUEUED))
    assert state_counts(shard) == {UrlState.FAILED: 1}


def test_a_parsed_page_is_done_once(shard):
    one, other = admit_and_claim(shard, 2)
    settle(shard, Settled(one.id, PARSING, 200, size=10))
    with shard.transaction():
        assert shard.parsed(CRAWL, [b"x" * 16, one.key, one.key], NOW) == [1]
        assert shard.parsed(CRAWL, [one.key, other.key], NOW) == [1]
        assert shard.parsed(CRAWL, [], NOW) == []
    assert state_counts(shard) == {DONE: 2}


def test_a_key_of_another_length_is_refused_before_it_shifts_the_others(shard):
    [one] = admit_and_claim(shard, 1)
    with shard.transaction(), pytest.raises(ValueError, match="16 bytes"):
        shard.parsed(CRAWL, [b"x", one.key], NOW)


@pytest.mark.parametrize("is_parsed_first", [False, True])
def test_a_page_that_is_parsed_in_the_transaction_that_knows_of_it_is_done(shard, is_parsed_first):
    one, other = admit_and_claim(shard, 2)
    steps = [
        lambda: shard.settle(
            [Settled(page.id, PARSING, 200, size=10, attempts=1) for page in (one, other)], NOW
        ),
        lambda: shard.parsed(CRAWL, [one.key], NOW),
    ]
    with shard.transaction():
        for step in reversed(steps) if is_parsed_first else steps:
            step()
    assert state_counts(shard) == {DONE: 1, PARSING: 1}
    counters = shard.counters(CRAWL)
    assert (counters["pages"], counters["bytes"]) == (2, 20)
    [row] = shard.urls(CRAWL, DONE, 0, 10)
    assert (row.status, row.attempts) == (200, 1)


def test_a_page_of_an_older_claim_is_done_without_what_it_was_told_of_now(shard):
    [one] = admit_and_claim(shard, 1)
    with shard.transaction():
        shard.settle([Settled(one.id, QUEUED)], NOW)
        shard.settle([Settled(one.id, PARSING, 200, size=10)], NOW)
        assert shard.parsed(CRAWL, [one.key], NOW) == [0]
    assert state_counts(shard) == {DONE: 1}
    [row] = shard.urls(CRAWL, DONE, 0, 10)
    assert row.status == 0


def test_a_parse_that_is_quicker_than_the_owner_costs_no_page(shard):
    [one] = admit_and_claim(shard, 1)
    with shard.transaction():
        assert shard.parsed(CRAWL, [one.key], NOW) == [0]
    settle(shard, Settled(one.id, PARSING, 200, size=10))
    settle(shard, Settled(one.id, PARSING, 200, size=10))
    counters = shard.counters(CRAWL)
    assert (counters["pages"], counters["bytes"]) == (1, 10)
    [row] = shard.urls(CRAWL, DONE, 0, 10)
    assert row.status == 200


def test_a_page_of_an_owner_that_died_is_done_when_its_parse_answers(stores):
    first = stores.shard(1)
    [one, _] = admit_and_claim(first, 2)
    heir = stores.shard(2)
    assert state_counts(heir) == {QUEUED: 2}
    with heir.transaction():
        assert heir.parsed(CRAWL, [one.key], NOW) == [0]
    assert state_counts(heir) == {DONE: 1, QUEUED: 1}
    assert waiting(heir) == {SITE: 1}
    assert heir.counters(CRAWL)["pages"] == 1


def test_a_parse_that_answers_after_its_page_seemed_lost_is_one_page(shard):
    [one] = admit_and_claim(shard, 1)
    settle(shard, Settled(one.id, PARSING, 200, size=10))
    with shard.transaction():
        assert shard.readmit(NOW + 1, NOW, 3, 10) == 1
    with shard.transaction():
        assert shard.parsed(CRAWL, [one.key], NOW) == [0]
    assert state_counts(shard) == {DONE: 1}
    assert shard.counters(CRAWL)["pages"] == 1
    [row] = shard.urls(CRAWL, DONE, 0, 10)
    assert row.reason == ""


def test_what_is_lost_in_parsing_is_queued_again_and_fails_in_the_end(shard):
    admit(shard, pages(3))
    origin = origin_id(shard)
    for attempt in range(2):
        claimed = claim(shard, origin, limit=2, now=NOW + attempt)
        settle(shard, *(Settled(one.id, PARSING, 200) for one in claimed), now=NOW + attempt)
        with shard.transaction():
            assert shard.readmit(NOW + attempt, NOW + attempt, 2, 10) == 0
            assert shard.readmit(NOW + 5, NOW + attempt, 2, 10) == 2
    counters = shard.counters(CRAWL)
    # Of the second round, one had never been tried, so it is queued again.
    assert (counters["readmitted"], counters["failed"], counters["queued"]) == (3, 1, 2)
    [group] = shard.errors(CRAWL)
    assert (group.reason, group.count) == ("lost in parsing", 4)


def test_no_more_is_readmitted_than_was_asked_for(shard):
    for crawl in (1, 2):
        admit(shard, pages(3), crawl=crawl)
        claimed = claim(shard, origin_id(shard), crawl=crawl)
        settle(shard, *(Settled(one.id, PARSING, 200) for one in claimed))
    with shard.transaction():
        assert shard.readmit(NOW + 1, NOW, 3, 4) == 4
        assert shard.readmit(NOW + 1, NOW, 3, 4) == 2


def test_a_cancel_ends_what_waits_and_only_that(shard):
    admit(shard, pages(5), crawl=2)
    admit(shard, pages(5))
    [one] = claim(shard, origin_id(shard), limit=1)
    with shard.transaction():
        assert shard.cancel(CRAWL, 3) == 3
        assert shard.cancel(CRAWL, 3) == 1
        assert shard.cancel(CRAWL, 3) == 0
    assert state_counts(shard) == {CLAIMED: 1, UrlState.CANCELLED: 4}
    assert states(shard)[one.url] is CLAIMED
    assert waiting(shard) == {SITE: 5}


def test_a_purge_ends_what_waits_of_one_domain(shard):
    admit(shard, [*pages(2), *pages(2, "https://shop.example.com"), *pages(2, "http://a.org")])
    with shard.transaction():
        assert shard.purge(CRAWL, "example.com", 3) == 3
        assert shard.purge(CRAWL, "example.com", 3) == 1
        assert shard.purge(CRAWL, "unknown.com", 3) == 0
    assert state_counts(shard) == {QUEUED: 2, UrlState.SKIPPED: 4}
    assert waiting(shard) == {"http://a.org": 2}
    assert {row.reason for row in shard.urls(CRAWL, UrlState.SKIPPED, 0, 9)} == {"purged"}


def test_what_was_admitted_in_the_same_transaction_can_be_purged(shard):
    with shard.transaction():
        shard.admit(CRAWL, pages(2), NOW)
        assert shard.purge(CRAWL, "example.com", 9) == 2
    assert waiting(shard) == {}


def test_it_is_known_which_crawls_and_domains_have_urls_waiting(shard):
    admit(shard, [*pages(2), *pages(3, "https://shop.example.com"), *pages(1, "http://a.org")])
    admit(shard, pages(1), crawl=CRAWL + 1)
    names = ["example.com", "a.org", "unknown.com"]
    assert sorted(shard.waiting_crawls()) == [CRAWL, CRAWL + 1]
    assert shard.waiting_in(CRAWL, names) == {"example.com": 6, "a.org": 1}
    assert shard.waiting_in(CRAWL + 1, names) == {"example.com": 6}
    with shard.transaction():
        shard.cancel(CRAWL + 1, 9)
        assert shard.waiting_crawls() == [CRAWL]
        assert shard.waiting_in(CRAWL + 1, names) == {}


def test_counters_of_states_belong_to_the_store(shard):
    with shard.transaction():
        shard.count(CRAWL, {"links": 7, "trapped": 2})
        shard.count(CRAWL, {"links": 1})
    assert shard.counters(CRAWL)["links"] == 8
    with pytest.raises(ValueError, match="queued"), shard.transaction():
        shard.count(CRAWL, {"queued": 1})


def test_what_a_failed_transaction_began_is_not_taken_for_known(shard):
    with pytest.raises(RuntimeError), shard.transaction():
        shard.admit(CRAWL, pages(3), NOW)
        raise RuntimeError
    admit(shard, pages(2))
    assert [url.url for url in claim(shard, origin_id(shard))] == [url.url for url in pages(2)]
    with shard.transaction():
        shard.admit(CRAWL, pages(3), NOW)
        [domain] = shard.waiting_domains(10)
    assert [origin.queued for origin in domain.origins] == [1]


# Origins that are left alone

OTHER = "http://other.example.com"


def leave_alone(shard: ShardStore, site: str, until: float, notes: bytes = b"{}") -> None:
    with shard.transaction():
        shard.keep_origin(origin_id(shard, site), until, notes)


def test_origins_that_are_left_alone_are_found_by_their_time(shard):
    admit(shard, [*pages(2), *pages(3, OTHER)])
    leave_alone(shard, SITE, NOW + 60, b"why")
    leave_alone(shard, OTHER, NOW + 30)
    with shard.transaction():
        found = shard.put_off(NOW, 10)
    assert [(one.origin, one.queued, one.ready_at) for one in found] == [
        (OTHER, 3, NOW + 30),
        (SITE, 2, NOW + 60),
    ]
    assert found[1].notes == b"why"
    assert [one.origin for one in shard.put_off(NOW + 30, 10)] == [SITE]
    assert [one.origin for one in shard.put_off(NOW, 1)] == [OTHER]


def test_origins_that_are_left_alone_are_told_to_the_crawls_that_wait_for_them(shard):
    admit(shard, pages(2), crawl=1)
    admit(shard, pages(1, OTHER), crawl=2)
    leave_alone(shard, SITE, NOW + 60)
    leave_alone(shard, OTHER, NOW + 60)
    assert [one.origin for one in shard.put_off_of(1, NOW, 10)] == [SITE]
    assert [one.origin for one in shard.put_off_of(2, NOW, 10)] == [OTHER]
    assert shard.put_off_of(2, NOW + 60, 10) == []


def test_an_origin_that_is_given_up_fails_what_waits_there_of_one_crawl(shard):
    admit(shard, [*pages(3), *pages(1, OTHER)], crawl=1)
    admit(shard, pages(1), crawl=2)
    with shard.transaction():
        assert shard.give_up(1, origin_id(shard), "connection refused", 2) == 2
        assert shard.give_up(1, origin_id(shard), "connection refused", 2) == 1
        assert shard.give_up(1, origin_id(shard), "connection refused", 2) == 0
    counters = shard.counters(1)
    assert (counters["failed"], counters["queued"]) == (3, 1)
    assert waiting(shard) == {SITE: 1, OTHER: 1}
    [group] = shard.errors(1)
    assert (group.reason, group.count) == ("connection refused", 3)
    assert shard.errors(2) == []


def test_an_error_is_counted_that_changes_no_url(shard):
    admit(shard, pages(1))
    with shard.transaction():
        shard.count_error(CRAWL, "robots.txt: connection refused", SITE + "/0", NOW)
    [group] = shard.errors(CRAWL)
    assert (group.count, group.sample_url, group.first_at) == (1, SITE + "/0", NOW)
    assert shard.counters(CRAWL)["queued"] == 1


# Pages that came to nothing where they were parsed


def nothing_of(claimed: ClaimedUrl, not_before: float | None, detail: str = "") -> Unparsed:
    return Unparsed(claimed.key, claimed.url, 200, "no use", detail, 1, not_before)


def test_a_page_that_came_to_nothing_has_failed_with_more_words_than_its_reason(shard):
    one, other = admit_and_claim(shard, 2)
    settle(shard, Settled(one.id, PARSING, 200, size=7))
    nothing = [nothing_of(one, None, "line 1\nline 2"), nothing_of(other, None)]
    with shard.transaction():
        assert shard.unparsed(CRAWL, nothing, NOW) == [0, 1]
        assert shard.unparsed(CRAWL, nothing, NOW) == []
    assert state_counts(shard) == {UrlState.FAILED: 2}
    assert shard.counters(CRAWL)["pages"] == 2
    [group] = shard.errors(CRAWL)
    assert (group.reason, group.count, group.sample_url) == ("no use", 2, one.url)
    assert group.detail == "line 1\nline 2"
    first, _ = shard.urls(CRAWL, UrlState.FAILED, 0, 9)
    assert (first.status, first.reason, first.attempts) == (200, "no use", 1)


def test_a_page_that_came_to_nothing_may_be_queued_again(shard):
    [one] = admit_and_claim(shard, 1)
    with shard.transaction():
        shard.settle([Settled(one.id, PARSING, 200, size=7)], NOW)
        assert shard.unparsed(CRAWL, [nothing_of(one, NOW + 5)], NOW) == [0]
    counters = shard.counters(CRAWL)
    assert (counters["pages"], counters["bytes"], counters["queued"]) == (1, 7, 1)
    assert waiting(shard) == {SITE: 1}
    assert claim(shard, origin_id(shard), now=NOW + 4) == []
    [again] = claim(shard, origin_id(shard), now=NOW + 5)
    assert (again.id, again.attempts) == (one.id, 1)


def test_what_a_url_was_followed_with_comes_with_it_again_and_again(shard):
    note = '{"from": "ä"}'
    noted, plain = pages(2)
    admit(shard, [noted._replace(note=note), plain])
    first, second = claim(shard, origin_id(shard))
    assert (first.note, first.job, second.note) == (note, "", "")
    settle(shard, first.put_back())
    [again] = claim(shard, origin_id(shard))
    assert again.note == note
