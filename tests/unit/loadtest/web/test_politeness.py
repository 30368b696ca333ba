"""The judge of a crawl's manners: each way to be rude is found, and nothing else is."""

from dataclasses import replace

from loadtest.web.politeness import NS, SAMPLES, Verdict, Violations, judge
from tests.support.visits import HOST, SISTER, STRANGER, robots, visit


def found(verdict: Verdict) -> dict[str, int]:
    return {name: one.count for name, one in verdict.all_violations.items() if one.count}


def test_a_polite_crawl_has_no_violation():
    visits = [robots(), visit("/", 1.1), visit("/a", 2.2), robots(SISTER), robots(STRANGER)]
    visits += [visit("/", 3.3, host=SISTER), visit("/", 3.3, host=STRANGER)]
    verdict = judge(visits, delay_s=1.0)
    assert found(verdict) == {}
    assert verdict.is_polite
    assert str(verdict) == "7 visits, all polite"
    assert verdict.least_gap_s == 1.0
    assert (verdict.most_at_once_per_host, verdict.most_at_once_per_domain) == (1, 1)


def test_the_gap_is_counted_from_the_end_of_the_answer():
    visits = [robots(), visit("/", 1.1, took_s=0.5), visit("/a", 2.2)]
    verdict = judge(visits, delay_s=1.0)
    assert found(verdict) == {"short gaps": 1}
    assert verdict.short_gaps.samples == [f"http://{HOST}/a 0.600 s after http://{HOST}/"]
    assert not verdict.is_polite


def test_the_gap_is_counted_from_the_answer_that_ended_last():
    long, short = visit("/long", 1.1, took_s=5.0), visit("/short", 2.2, host=SISTER)
    verdict = judge([robots(), robots(SISTER), long, short, visit("/a", 6.2)], delay_s=1.0)
    assert verdict.short_gaps.count == 2


def test_a_gap_may_be_short_by_the_tolerance_alone():
    visits = [robots(), visit("/", 1.1), visit("/a", 2.195)]
    assert found(judge(visits, delay_s=1.0)) == {}
    assert found(judge(visits, delay_s=1.0, tolerance_s=0.001)) == {"short gaps": 1}


def test_hosts_of_one_domain_share_the_delay():
    visits = [robots(), robots(SISTER), visit("/", 1.1), visit("/", 1.5, host=SISTER)]
    assert found(judge(visits, delay_s=1.0)) == {"short gaps": 1}


def test_the_gap_around_robots_is_told_apart():
    verdict = judge([robots(), visit("/", 0.3)], delay_s=1.0)
    assert found(verdict) == {}
    assert verdict.short_robots_gaps.count == 1
    assert verdict.least_robots_gap_s == 0.2
    assert verdict.least_gap_s is None


def test_a_longer_crawl_delay_is_wanted_between_pages_of_its_host():
    visits = [robots(), visit("/", 1.1), visit("/a", 2.5), visit("/b", 4.6)]
    verdict = judge([replace(one, crawl_delay_s=2.0) for one in visits], delay_s=1.0)
    assert found(verdict) == {"short of the Crawl-delay": 1}


def test_two_requests_at_once_to_a_host_are_found_without_any_delay():
    visits = [robots(), visit("/", 1.1, took_s=0.5), visit("/a", 1.2)]
    verdict = judge(visits, delay_s=0.0)
    assert verdict.overlaps.samples == [f"http://{HOST}/a during http://{HOST}/"]
    assert verdict.most_at_once_per_host == 2


def test_two_requests_at_once_to_a_domain_are_a_short_gap():
    visits = [robots(), robots(SISTER), visit("/", 1.1, took_s=0.5), visit("/", 1.2, host=SISTER)]
    verdict = judge(visits, delay_s=0.0)
    assert found(verdict) == {"short gaps": 1}
    assert (verdict.most_at_once_per_host, verdict.most_at_once_per_domain) == (1, 2)


def test_a_request_that_robots_forbids_is_found():
    visits = [robots(), replace(visit("/private/1", 1.1), is_forbidden=True)]
    assert found(judge(visits, delay_s=1.0)) == {"forbidden by robots.txt": 1}


def test_a_page_without_robots_before_it_is_found():
    assert found(judge([visit("/", 0.0)], delay_s=1.0)) == {"before robots.txt": 1}


def test_a_page_before_the_end_of_robots_is_found():
    visits = [robots(), visit("/", 0.05), visit("/a", 1.2)]
    assert found(judge(visits, delay_s=1.0)) == {"before robots.txt": 1}


def test_robots_of_another_host_does_not_count():
    visits = [robots(SISTER), visit("/", 1.2)]
    assert found(judge(visits, delay_s=1.0)) == {"before robots.txt": 1}


def test_robots_that_failed_is_no_robots():
    late = replace(robots(), status=503)
    visits = [late, visit("/", 1.2), robots(at_s=3.0), visit("/a", 5.0)]
    assert found(judge(visits, delay_s=1.0)) == {"before robots.txt": 1}


def test_a_missing_robots_is_an_answer():
    visits = [replace(robots(), status=404), visit("/", 1.2)]
    assert found(judge(visits, delay_s=1.0)) == {}


def test_a_request_before_the_time_of_retry_after_is_found():
    sent_away = replace(visit("/", 1.1, status=429), blocked_until_ns=round(4.0 * NS))
    early, in_time = visit("/a", 3.5), visit("/b", 4.7)
    verdict = judge([robots(), sent_away, early, in_time], delay_s=1.0)
    assert found(verdict) == {"while blocked": 1}
    assert verdict.while_blocked.samples == [early.url]


def test_a_host_that_does_not_say_for_how_long_is_left_alone_for_a_minute():
    sent_away = visit("/", 1.1, status=503)
    visits = [robots(), sent_away, visit("/a", 20.0), visit("/b", 62.0)]
    assert found(judge(visits, delay_s=1.0)) == {"while blocked": 1}


def test_a_block_is_the_hosts_own():
    sent_away = replace(visit("/", 1.1, status=429), blocked_until_ns=round(9.0 * NS))
    visits = [robots(), robots(SISTER), sent_away, visit("/", 2.5, host=SISTER)]
    assert found(judge(visits, delay_s=1.0)) == {}


def test_a_page_that_was_answered_and_is_asked_for_again_is_found():
    visits = [robots(), visit("/", 1.1), visit("/", 2.3)]
    verdict = judge(visits, delay_s=1.0)
    assert found(verdict) == {"fetched again": 1}


def test_a_page_that_failed_or_was_given_up_may_be_asked_for_again():
    visits = [robots(), visit("/", 1.1, status=500), visit("/", 2.3, status=0), visit("/", 3.5)]
    assert found(judge(visits, delay_s=1.0)) == {}


def test_a_user_agent_without_a_contact_is_found():
    visits = [robots(), replace(visit("/", 1.1), agent="Manyhands/1.0 (+https://example.org)")]
    assert found(judge(visits, delay_s=1.0)) == {"no contact in the user agent": 1}


def test_the_order_of_the_ledger_does_not_matter():
    visits = [visit("/a", 2.2), robots(), visit("/", 1.1)]
    assert found(judge(visits, delay_s=1.0)) == {}


def test_only_the_first_violations_are_shown():
    violations = Violations()
    for number in range(SAMPLES + 3):
        violations.add(str(number))
    assert violations.count == SAMPLES + 3
    assert violations.samples == [str(number) for number in range(SAMPLES)]


def test_the_verdict_says_what_it_found():
    verdict = judge([visit("/", 0.0)], delay_s=1.0)
    assert str(verdict) == f"1 before robots.txt, such as http://{HOST}/"
