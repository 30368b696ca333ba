"""What is answered: all shards together, and times that people can read."""

from datetime import UTC, datetime

from manyhands.api.crawls import views
from manyhands.api.crawls.limited_by import HeldDomain
from manyhands.shared.crawl.states import CrawlState, UrlState
from manyhands.shared.crawl.store.model import (
    COUNTERS,
    DomainRule,
    ErrorGroup,
    StoredDomain,
    StoredOrigin,
    UrlRow,
)
from tests.unit.api.crawls.made_up import STARTED_AT, a_crawl, counters, told


def test_counters_are_summed_and_there_even_without_a_shard():
    assert views.summed([]) == counters()
    assert views.summed([counters(queued=2, pages=5), counters(queued=3)]) == counters(
        queued=5, pages=5
    )


def test_a_view_has_every_counter_in_one_place():
    counted = {name: number for number, name in enumerate(COUNTERS, 1)}
    view = views.view(told(a_crawl()), counted, [], 2.5, STARTED_AT + 10)
    assert view.urls["queued"] == counted["queued"]
    # Those of the store itself, and of fetch jobs.
    hidden = {name: counted[name] for name in ("changes", "same")}
    assert view.urls | view.counters | hidden == counted
    assert not view.urls.keys() & view.counters.keys()


def test_rates_are_of_now_and_since_the_start():
    view = views.view(told(a_crawl()), counters(pages=50), [], 2.5, STARTED_AT + 10)
    assert (view.pages_per_s, view.mean_pages_per_s) == (2.5, 5)
    ended = a_crawl(CrawlState.COMPLETED)
    view = views.view(told(ended), counters(pages=50), [], None, STARTED_AT + 100_000)
    assert (view.pages_per_s, view.mean_pages_per_s) == (None, 0.5)
    starting = views.view(told(a_crawl(CrawlState.STARTING)), counters(), [], None, STARTED_AT)
    assert starting.mean_pages_per_s is None


def test_times_are_told_with_their_zone():
    view = views.view(
        told(a_crawl(), notes=[(STARTED_AT, "3 URLs were queued again")]), counters(), [], None, 0.0
    )
    assert view.started_at == datetime.fromtimestamp(STARTED_AT, UTC)
    assert view.ended_at is None
    assert view.notes[0].at == view.started_at
    assert '"started_at":"1970-01-12T13:46:50Z"' in view.model_dump_json()


def test_a_change_says_what_is_under_way():
    change = views.change(
        a_crawl(CrawlState.STOPPING, ends_as=CrawlState.CANCELLED),
        counters(claimed=2, parsing=3, queued=10),
    )
    assert (change.in_flight, change.queued, change.ends_as) == (5, 10, "cancelled")


def test_errors_of_all_shards_are_one_for_each_reason_the_most_frequent_first():
    merged = views.errors(
        [
            ErrorGroup("http 404", 2, "https://a.example/", 10.0, 20.0),
            ErrorGroup("connection refused", 5, "https://b.example/", 30.0, 40.0),
            ErrorGroup("http 404", 4, "https://c.example/", 5.0, 15.0),
        ]
    )
    assert [(error.reason, error.count) for error in merged] == [
        ("http 404", 6),
        ("connection refused", 5),
    ]
    assert merged[0].sample_url == "https://a.example/"
    assert merged[0].first_at.timestamp() == 5
    assert merged[0].last_at.timestamp() == 20


def a_domain(name: str, *queued: int, next_at: float = 0.0) -> StoredDomain:
    origins = [
        StoredOrigin(place, f"https://{place}.{name}", number, 0.0)
        for place, number in enumerate(queued)
    ]
    return StoredDomain(1, name, next_at, origins)


def test_domains_with_most_waiting_come_first_with_what_was_said_of_them():
    found = views.domains(
        [
            a_domain("a.example", 1, 1),
            a_domain("b.example", *range(12), next_at=100.0),
            a_domain("c.example", 3),
        ],
        [
            DomainRule(None, "b.example", 5.0, False),
            DomainRule(3, "b.example", 7.0, True),
            DomainRule(None, "c.example", None, True),
        ],
        2,
        now=50.0,
    )
    assert [(domain.domain, domain.queued) for domain in found] == [
        ("b.example", 66),
        ("c.example", 3),
    ]
    first, second = found
    assert (first.delay_s, first.is_blocked, second.is_blocked) == (5.0, False, True)
    assert first.next_at is not None and second.next_at is None
    assert [origin.queued for origin in first.origins] == list(range(11, 1, -1))


def test_a_url_is_told_with_the_name_of_its_state():
    row = UrlRow(1, "https://a.example/", UrlState.FAILED, 2, 404, "http 404", 1, STARTED_AT)
    assert views.url_view(row).state == "failed"


def test_what_was_left_out_is_told_by_its_reason():
    view = views.view(
        told(a_crawl()),
        counters(out_of_scope=4, too_deep=3, disallowed=2, over_host_limit=1, done=9),
        [],
        None,
        STARTED_AT,
    )
    assert view.left_out == {"scope": 4, "depth": 3, "robots.txt": 2, "pages per host": 1}


def test_hosts_that_are_put_off_are_told_with_reason_and_times():
    notes = b'{"trouble": "robots.txt: connection refused", "trouble_since": 1000.0}'
    waiting = [
        StoredOrigin(1, "http://late.example", 5, 2000.0, notes),
        StoredOrigin(2, "http://soon.example", 2, 1030.0, notes),
        StoredOrigin(3, "http://odd.example", 2, 1500.0, b"{"),
    ]
    view = views.view(told(a_crawl()), counters(queued=7), waiting, None, STARTED_AT)
    soon, late = view.put_off
    assert (soon.origin, soon.reason, soon.queued) == (
        "http://soon.example",
        "robots.txt: connection refused",
        2,
    )
    assert soon.ready_at.timestamp() == 1030
    assert soon.given_up_at.timestamp() == 1300
    assert late.given_up_at == late.ready_at
    assert view.limited_by == (
        "host put off: http://soon.example (robots.txt: connection refused) and 1 hosts more, "
        "tried again at 00:17:10 UTC, given up at 00:21:40 UTC at the latest"
    )


def test_nothing_waits_of_a_crawl_that_has_ended():
    counted = counters(queued=5, cancelled=1)
    view = views.view(told(a_crawl(CrawlState.LIMIT_REACHED)), counted, [], None, STARTED_AT)
    assert (view.urls["queued"], view.urls["cancelled"], view.left_out) == (0, 6, {"cancelled": 6})


def test_domains_are_held_by_the_rules_of_the_crawl_and_of_all():
    rules = [
        DomainRule(None, "a.example", is_paused=True),
        DomainRule(3, "a.example", is_blocked=True),
        DomainRule(4, "b.example", is_blocked=True),
        DomainRule(3, "c.example", 5.0),
    ]
    assert views.held_domains(rules, 3) == {
        "a.example": HeldDomain("a.example", is_blocked=True, is_paused=True)
    }
    held = [HeldDomain(f"{number}.example", queued=number) for number in range(12)]
    view = views.view(told(a_crawl()), counters(queued=7), [], None, STARTED_AT, held)
    assert [one.queued for one in view.held] == list(range(11, 1, -1))


def test_a_time_that_only_a_rule_puts_off_is_told_with_it():
    stored = StoredDomain(1, "a.example", 100.0, [], delay_s=1.0)
    for delay_s, next_at in ((None, 100.0), (0.5, 100.0), (60.0, 159.0)):
        rule = DomainRule(None, "a.example", delay_s)
        [found] = views.domains([stored], [rule], 1, now=50.0)
        assert found.next_at is not None and found.next_at.timestamp() == next_at
