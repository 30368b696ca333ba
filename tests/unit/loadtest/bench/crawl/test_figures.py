"""What the origin's ledger says of a crawl in numbers, and when a run must not count."""

from collections import Counter

import pytest

from loadtest.bench.crawl.figures import (
    Look,
    Visited,
    check_counters,
    check_coverage,
    manners,
    steady_means,
)
from loadtest.lib.errors import RunError
from loadtest.web.oracle import Coverage
from loadtest.web.politeness import NS, Visit, judge
from loadtest.web.synthetic_web import Counts

EXACT = Coverage(wanted=4, fetched=4, missed=[], unwanted=[])


def visit(arrived_s: float, ended_s: float, host: str = "w0.site0.test", path: str = "/") -> Visit:
    return Visit(
        host=host,
        path=path,
        url=f"http://{host}{path}",
        arrived_ns=round(arrived_s * NS),
        ended_ns=round(ended_s * NS),
        blocked_until_ns=0,
        connection=1,
        agent="Bench (bench@example.org)",
        status=200,
        is_robots=path == "/robots.txt",
        is_forbidden=False,
        crawl_delay_s=0.0,
    )


def counts(pages: int) -> Counts:
    return Counts(
        requests=pages + 1,
        robots=1,
        pages=pages,
        bytes=0,
        statuses={},
        now_ns=0,
        connections=1,
        dns_questions=1,
        cpu_s=0.0,
    )


def test_the_rate_of_the_steady_middle_leaves_out_start_and_tail():
    # A slow start, ten pages a second, and a last one that takes a minute.
    ends = [10.0, *(10.0 + number / 10 for number in range(1, 100)), 90.0]
    visited = Visited.of([visit(end - 0.05, end, path=f"/{end}") for end in ends])
    assert visited.pages == 101
    assert visited.steady_pages_per_s == pytest.approx(10.0)
    assert visited.pages_per_s == pytest.approx(101 / 80.05)


def test_robots_txt_is_no_page():
    pages = [visit(number, number + 1, path=f"/{number}") for number in range(10)]
    robots = visit(0, 500, path="/robots.txt")
    assert Visited.of([robots, *pages]) == Visited.of(pages)


def test_a_page_that_is_fetched_twice_counts_once():
    pages = [visit(number, number + 1, path=f"/{number}") for number in range(10)]
    assert Visited.of([*pages, visit(300, 301, path="/3")]) == Visited.of(pages)


def test_answers_at_the_same_time_are_counted_together():
    twice = [visit(0, 10, path="/a"), visit(0, 9, path="/b"), visit(5, 10, path="/c")]
    assert Visited.of(twice).at_once == pytest.approx(2.4)


@pytest.mark.parametrize("ends", [[], [1.0], [1.0, 1.0, 1.0]])
def test_too_few_pages_have_no_rate(ends):
    with pytest.raises(RunError, match="too few"):
        Visited.of([visit(0, end, path=f"/{index}") for index, end in enumerate(ends)])


def test_means_are_of_the_steady_middle():
    looks = [Look(0, 0, 0), Look(10, 90, 7), Look(11, 100, 9), Look(99, 0, 0)]
    assert steady_means(looks, 10, 11) == (95, 8)
    # Too short for a look: better all than none.
    assert steady_means(looks, 10.2, 10.4) == (47.5, 4)
    with pytest.raises(RunError, match="nothing was seen"):
        steady_means([], 0, 1)


def test_two_hosts_of_a_domain_at_a_time_are_counted_apart_from_the_other_violations():
    robots = [visit(0, 0.1, f"w{host}.site0.test", "/robots.txt") for host in range(2)]
    together = [visit(1, 2, "w0.site0.test"), visit(1.5, 2, "w1.site0.test")]
    found = manners(judge([*robots, *together], delay_s=0.0), EXACT)
    assert found == {
        "violations": 0,
        "two_of_domain": 1,
        "twice": 0,
        "coverage": 1.0,
        "unwanted": 0,
    }
    overlapping = [*together, visit(1.7, 2, "w0.site0.test", "/b"), visit(3, 4, "w0.site0.test")]
    found = manners(judge([*robots, *overlapping], delay_s=0.0), EXACT)
    assert (found["violations"], found["two_of_domain"], found["twice"]) == (1, 2, 1)


def test_a_page_too_few_or_too_many_is_not_the_perfect_crawl():
    check_coverage(EXACT)
    for missed, unwanted in ((["http://a/"], []), ([], ["http://b/"])):
        with pytest.raises(RunError, match=r"http://[ab]/"):
            check_coverage(Coverage(4, 3, missed, unwanted))


@pytest.mark.parametrize("name", ["admitted", "done", "pages"])
def test_a_crawl_that_counts_otherwise_than_the_origin_does_not_count(name):
    counters = Counter(admitted=40, done=40, pages=40)
    check_counters(counters, counts(40))
    counters[name] += 1
    with pytest.raises(RunError, match="the origin gave 40 pages"):
        check_counters(counters, counts(40))
