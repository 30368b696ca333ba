"""Pages per second, from looks that come when somebody asks."""

import pytest

from manyhands.api.crawls.rates import APART_S, KEPT_S, MAX_CRAWLS, Rates


def test_the_first_look_knows_no_rate_and_the_second_does():
    rates = Rates()
    assert rates.look(1, 100, 0.0) is None
    assert rates.look(1, 150, 5.0) == pytest.approx(10)


def test_looks_close_together_are_measured_from_an_earlier_one():
    rates = Rates()
    rates.look(1, 0, 0.0)
    assert rates.look(1, 1, APART_S / 2) is None
    assert rates.look(1, 40, 4.0) == pytest.approx(10)
    assert rates.look(1, 45, 4.5) == pytest.approx(10)
    # From the look at 4 s: what was before is forgotten.
    assert rates.look(1, 45, 9.0) == pytest.approx(1)


def test_a_look_too_long_ago_says_nothing_of_now():
    rates = Rates()
    rates.look(1, 0, 0.0)
    assert rates.look(1, 1000, KEPT_S + 1) is None
    assert rates.look(1, 1010, KEPT_S + 6) == pytest.approx(2)


def test_each_crawl_has_its_own():
    rates = Rates()
    rates.look(1, 0, 0.0)
    rates.look(2, 50, 0.0)
    assert rates.look(1, 10, 10.0) == pytest.approx(1)
    assert rates.look(2, 50, 10.0) == 0


def test_a_counter_that_goes_back_begins_anew():
    rates = Rates()
    rates.look(1, 100, 0.0)
    assert rates.look(1, 10, 5.0) is None


def test_only_so_many_are_remembered_and_the_oldest_go():
    rates = Rates()
    for crawl in range(MAX_CRAWLS + 1):
        rates.look(crawl, 0, 0.0)
    assert rates.look(MAX_CRAWLS, 10, 5.0) == pytest.approx(2)
    assert rates.look(0, 10, 5.0) is None
