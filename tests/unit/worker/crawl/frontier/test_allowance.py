"""What a process may fetch of a crawl with a limit: enough, and no more than it needs."""

from hypothesis import given
from hypothesis import strategies as st

from manyhands.worker.crawl.frontier.allowance import (
    FIRST,
    IDLE_S,
    MOST_AT_ONCE,
    TOO_MANY_S,
    Allowance,
)

LONG_AFTER = 1000.0


def asked(allowance: Allowance, now: float, limit: int = 10**6, members: int = 1) -> int:
    """What is asked for is given."""
    wanted = allowance.wanted(limit, members, now)
    allowance.given(wanted, now)
    return wanted


def test_a_fast_crawl_asks_for_four_times_as_many_each_time():
    allowance = Allowance()
    asks = [asked(allowance, now / 10) for now in range(6)]
    assert asks == [FIRST, FIRST * 4, FIRST * 16, FIRST * 64, MOST_AT_ONCE, MOST_AT_ONCE]


def test_a_slow_crawl_asks_for_less_and_less():
    allowance = Allowance()
    asks = [asked(allowance, look * (TOO_MANY_S + 1)) for look in range(4)]
    assert asks == [4, 2, 1, 1]


def test_a_limit_of_a_hundred_pages_is_given_out_in_a_few_asks():
    allowance, left, asks = Allowance(), 100, 0
    while left:
        given = min(left, allowance.wanted(100, 1, asks / 100))
        allowance.given(given, asks / 100)
        left, asks = left - given, asks + 1
    assert asks <= 5


def test_no_process_takes_what_others_need():
    allowance = Allowance()
    assert max(asked(allowance, now / 10, limit=100, members=5) for now in range(10)) == 10
    assert Allowance().wanted(1, 8, 0.0) == 1


def test_more_is_asked_for_while_half_is_left():
    allowance = Allowance()
    assert allowance.is_low
    asked(allowance, 0.0)
    assert not allowance.is_low
    allowance.begin(0.0)
    allowance.begin(0.0)
    assert allowance.is_low
    assert allowance.left == 2


def test_a_page_between_requests_of_a_polite_crawl_is_kept_and_an_idle_crawl_gives_all_back():
    allowance = Allowance()
    asked(allowance, 0.0)
    for second in range(1, 4):
        allowance.begin(float(second))
        allowance.ended()
        assert allowance.take_unused(second + 0.99) == 0
    assert allowance.take_unused(3 + IDLE_S) == 1
    assert (allowance.left, allowance.held) == (0, 0)


def test_what_is_on_its_way_is_held_until_the_store_knows():
    allowance = Allowance()
    allowance.given(1, 0.0)
    allowance.begin(0.0)
    assert (allowance.left, allowance.held) == (0, 1)
    allowance.came_to_nothing()
    allowance.ended()
    assert (allowance.left, allowance.held) == (1, 1)


def test_pages_that_were_forgotten_do_not_come_back_with_what_was_on_its_way():
    allowance = Allowance()
    allowance.given(3, 0.0)
    allowance.begin(0.0)
    allowance.forget()
    allowance.came_to_nothing()
    allowance.ended()
    assert allowance.held == 0
    allowance.given(1, 1.0)
    allowance.begin(1.0)
    allowance.came_to_nothing()
    allowance.ended()
    assert allowance.held == 1


@given(st.lists(st.sampled_from(["ask", "begin", "page", "nothing", "unused", "forget"])))
def test_never_more_pages_are_begun_than_were_given(steps):
    limit, given_out, pages, now = 50, 0, 0, 0.0
    allowance = Allowance()
    for step in steps:
        now += 0.3
        if step == "ask":
            granted = min(limit - given_out, allowance.wanted(limit, 2, now))
            given_out += granted
            allowance.given(granted, now)
        elif step == "begin" and allowance.left:
            allowance.begin(now)
        elif step in ("page", "nothing") and allowance.begun:
            pages += step == "page"
            if step == "nothing":
                allowance.came_to_nothing()
            allowance.ended()
        elif step == "unused":
            given_out -= allowance.take_unused(now + LONG_AFTER)
        elif step == "forget":
            allowance.forget()
        assert pages + allowance.held <= given_out <= limit
