from typing import Any

from manyhands.cli.figures import (
    Hosts,
    error_count,
    errors_told,
    hosts_of,
    progress_line,
    put_off,
    queue_groups,
    why_nothing,
)
from tests.unit.cli.snapshots import METRICS, error, queue, snapshot


def test_hosts_are_added_up_over_all_processes():
    assert hosts_of(METRICS) == Hosts(ready=5, waiting=40, fetching=7)


def test_a_worker_that_says_nothing_of_hosts_has_none():
    assert hosts_of("manyhands_worker_slots 200.0\n") is None


def test_the_line_has_what_a_person_looks_for():
    line = progress_line(
        snapshot(
            queued=1200,
            claimed=34,
            metrics=METRICS,
            queues=(queue("parse", 9), queue("crawl.01", 5)),
            errors=(error("http 500", 2),),
        )
    )
    assert line == (
        "– pages/s · hosts 5 ready, 40 waiting · fetching 7 · queue 1,234 · parse backlog 9 · "
        "errors 2, last: http 500 (a.example)"
    )


def test_what_a_rule_left_out_is_no_error():
    reasons = ("robots.txt", "content type image/png", "domain blocked by an operator", "http 404")
    assert error_count(snapshot(errors=tuple(map(error, reasons)))) == 1


def test_a_robots_txt_that_cannot_be_had_is_an_error_and_the_last_one_is_named():
    earlier = error("http 404", 7) | {"last_at": "2030-01-31T12:00:01Z"}
    found = snapshot(errors=(earlier, error("robots.txt: connection refused")))
    assert errors_told(found) == "errors 8, last: robots.txt: connection refused (a.example)"
    assert errors_told(snapshot(errors=(error("robots.txt"),))) == "errors 0"


def test_the_seconds_of_a_crawl_are_known_at_its_end():
    assert snapshot("running").seconds == 0.0
    assert snapshot("completed").seconds == 10.5


def test_a_crawl_moves_when_any_of_its_counts_does():
    assert snapshot(queued=1).movement == snapshot(queued=1).movement
    assert snapshot(queued=1).movement != snapshot(queued=2).movement
    assert snapshot(links=1).movement != snapshot(links=2).movement
    assert snapshot("starting").movement != snapshot("running").movement


def test_the_queues_of_all_shards_are_one():
    queues = [
        queue("crawl.01", 2, 1.5),
        queue("crawl.02", 3, 0.5),
        queue("default", 0),
        queue("v1.2.x", 1),
    ]
    assert queue_groups(queues) == [
        ("crawl.*", 5, 1.5, ""),
        ("default", 0, 0.0, ""),
        ("v1.2.x", 1, 0.0, ""),
    ]


def test_they_are_paused_in_all_or_in_part_if_the_server_tells():
    crawl = [queue("crawl.01", 2), queue("crawl.02", 3)]
    for paused, said in (
        ((True, True), "paused"),
        ((False, True), "partly paused"),
        ((False, False), ""),
        ((None, None), ""),
    ):
        told = [{**one, "paused": is_so} for one, is_so in zip(crawl, paused, strict=True)]
        assert [group.paused for group in queue_groups(told)] == [said]


def test_a_site_that_forbids_everything_is_named_as_such():
    ended = snapshot("failed", admitted=2, disallowed=2, errors=(error("robots.txt", 2),))
    assert "robots.txt forbids all of it" in (why_nothing(ended) or "")


def test_without_a_page_the_most_frequent_error_is_told():
    ended = snapshot("failed", admitted=3, failed=3, errors=(error("dns: no such host", 3),))
    assert why_nothing(ended) == "dns: no such host (3 ×), such as https://a.example/x"


def test_a_crawl_with_pages_needs_no_excuse():
    assert why_nothing(snapshot("completed", admitted=1, done=1, pages=1)) is None


def test_of_what_is_put_off_the_latest_time_counts():
    origins = [
        {"ready_at": None, "reason": ""},
        {"ready_at": "2030-01-31T12:05:00Z", "reason": ""},
        {"ready_at": "2030-01-31T12:06:00Z", "reason": "http 429"},
    ]
    domains: list[dict[str, Any]] = [
        {"domain": "a.example", "next_at": "2030-01-31T12:00:00Z", "origins": origins},
        {"domain": "b.example", "next_at": None, "origins": [{"ready_at": None, "reason": ""}]},
    ]
    assert put_off(domains) == ["a.example is left alone until 12:06:00 UTC (http 429)"]
