"""How long an answer of DNS counts, and how many are kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.worker.net.dns_cache import FAILURE_S, LONGEST_S, MISSING_S, SHORTEST_S, DnsCache

ADDRESSES = ("192.0.2.1", "2001:db8::1")


@pytest.mark.parametrize(
    ("ttl_s", "kept_s"),
    [
        (0, SHORTEST_S),
        (1, SHORTEST_S),
        (30, 30),
        (300, 300),
        (3600, 3600),
        (10**9, LONGEST_S),
    ],
)
def test_an_answer_counts_for_its_time_to_live_within_reason(ttl_s, kept_s):
    cache = DnsCache()
    cache.found("a.test", ADDRESSES, ttl_s, now=1000)
    entry = cache.get("a.test", 1000 + kept_s - 0.001)
    assert entry is not None and entry.addresses == ADDRESSES and not entry.failure
    assert cache.get("a.test", 1000 + kept_s) is None


def test_a_name_that_is_not_there_is_asked_for_again_after_a_minute():
    cache = DnsCache()
    cache.missing("a.test", "dns: no such host", now=0)
    entry = cache.get("a.test", MISSING_S - 1)
    assert entry is not None and (entry.addresses, entry.failure) == ((), "dns: no such host")
    assert cache.get("a.test", MISSING_S) is None
    assert MISSING_S <= 60


def test_a_failure_counts_for_less():
    cache = DnsCache()
    cache.failed("a.test", "time-out: dns", now=0)
    assert cache.get("a.test", FAILURE_S - 1) is not None
    assert cache.get("a.test", FAILURE_S) is None
    assert FAILURE_S < MISSING_S


def test_a_new_answer_replaces_the_old_one():
    cache = DnsCache()
    cache.failed("a.test", "time-out: dns", now=0)
    cache.found("a.test", ADDRESSES, 300, now=1)
    entry = cache.get("a.test", 200)
    assert entry is not None and entry.addresses == ADDRESSES
    assert len(cache) == 1


def test_the_least_recently_used_names_are_dropped():
    cache = DnsCache(max_entries=2)
    for name in ("a.test", "b.test"):
        cache.found(name, ADDRESSES, 300, now=0)
    assert cache.get("a.test", 1) is not None
    cache.found("c.test", ADDRESSES, 300, now=2)
    assert cache.get("b.test", 3) is None
    assert cache.get("a.test", 3) is not None
    assert cache.get("c.test", 3) is not None


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 10**6)), max_size=60))
def test_it_never_grows_beyond_its_bound(puts):
    cache = DnsCache(max_entries=5)
    for now, (name, ttl_s) in enumerate(puts):
        cache.found(f"{name}.test", ADDRESSES, ttl_s, now)
        assert len(cache) <= 5
