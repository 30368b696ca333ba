"""Keys: how they are written down, found, replaced and held to their rate."""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.api.keys import KEY_PREFIX, Scope, TokenBucket, new_key, parse_keys
from manyhands.shared.errors import ConfigError


def entry(name: str, scopes: str, secret: str) -> str:
    return f"{name}:{scopes}:{hashlib.sha256(secret.encode()).hexdigest()}"


def test_a_key_is_found_by_its_secret_and_has_its_scopes():
    keys = parse_keys(entry("ci", "ingest+read", "s1"), 0.0, 0.0)
    found = keys.find(b"s1")
    assert found is not None
    assert (found.name, found.scopes) == ("ci", frozenset({Scope.INGEST, Scope.READ}))
    assert keys.find(b"s2") is None


def test_two_keys_of_one_user_are_let_in_until_the_older_is_taken_out():
    old, new = entry("ops-1", "admin", "old"), entry("ops-2", "admin", "new")
    both = parse_keys(f"{old}, {new}", 0.0, 0.0)
    assert both.find(b"old") and both.find(b"new")
    after = parse_keys(new, 0.0, 0.0)
    assert after.find(b"old") is None
    assert after.find(b"new")


def test_every_key_is_compared_in_constant_time_wherever_it_stands(monkeypatch):
    compared = []
    in_constant_time = hmac.compare_digest

    def compare(ours: bytes, given: bytes) -> bool:
        compared.append(ours)
        return in_constant_time(ours, given)

    monkeypatch.setattr("manyhands.api.keys.hmac.compare_digest", compare)
    text = ",".join(entry(f"k{number}", "read", f"s{number}") for number in range(3))
    keys = parse_keys(text, 0.0, 0.0)
    for secret in (b"s0", b"s2", b"nobody's"):
        compared.clear()
        keys.find(secret)
        assert len(compared) == 3


@pytest.mark.parametrize("text", ["", "none"])
def test_no_keys_are_no_keys(text):
    assert not parse_keys(text, 0.0, 0.0)


@pytest.mark.parametrize(
    "text",
    [
        " ",
        ",",
        "mh_the-secret-itself",
        "ops",
        "ops:read",
        f"ops:read:{'0' * 63}",
        f"ops:read:{'0' * 62}",
        f"ops:read:{'0' * 66}",
        f"ops:read:{'x' * 64}",
        f"ops::{'0' * 64}",
        f"ops:write:{'0' * 64}",
        f"ops:read+:{'0' * 64}",
        f"ops:read,ingest:{'0' * 64}",
        f":read:{'0' * 64}",
        f"ops:read:{'0' * 64},",
        f"none,ops:read:{'0' * 64}",
    ],
)
def test_an_entry_that_is_none_is_refused_without_repeating_it(text):
    with pytest.raises(
        ConfigError, match=r"API_KEYS: entry \d is not name:scopes:sha256"
    ) as caught:
        parse_keys(text, 0.0, 0.0)
    assert "secret" not in str(caught.value)


def test_two_keys_of_the_same_name_are_refused():
    with pytest.raises(ConfigError, match="same name"):
        parse_keys(f"{entry('ops', 'read', 'a')},{entry('ops', 'read', 'b')}", 0.0, 0.0)


def test_a_new_key_opens_what_its_entry_says():
    secret, text = new_key("ci", "ingest+read")
    found = parse_keys(text, 0.0, 0.0).find(secret.encode())
    assert found is not None
    assert (found.name, found.scopes) == ("ci", frozenset({Scope.INGEST, Scope.READ}))
    assert secret.startswith(KEY_PREFIX)
    assert secret not in text


def test_new_keys_differ():
    assert new_key("ci", "read")[0] != new_key("ci", "read")[0]


@pytest.mark.parametrize("name", ["", " ", "a,b", "a:b", "a\nb"])
def test_a_key_with_a_name_that_cannot_be_written_down_is_not_made(name):
    with pytest.raises(ConfigError, match="name"):
        new_key(name, "read")


@pytest.mark.parametrize("scopes", ["", "write", "read,ingest", "read+"])
def test_a_key_without_real_scopes_is_not_made(scopes):
    with pytest.raises(ConfigError, match="scopes"):
        new_key("ci", scopes)


# The rate


def test_a_key_without_a_rate_has_no_bucket():
    key = parse_keys(entry("ci", "read", "s"), 0.0, 0.0).find(b"s")
    assert key is not None and key.bucket is None


def test_each_key_has_a_bucket_of_its_own():
    keys = parse_keys(f"{entry('a', 'read', 'a')},{entry('b', 'read', 'b')}", 10.0, 0.0)
    first, second = keys.find(b"a"), keys.find(b"b")
    assert first and first.bucket and second and second.bucket
    first.bucket.take(100, 0.0)
    assert first.bucket.wait_s(0.0) > 0
    assert second.bucket.wait_s(0.0) == 0


def test_a_second_s_worth_goes_at_once_and_the_rest_must_wait():
    bucket = TokenBucket(rate=10.0, tokens=10.0, at=0.0)
    for _ in range(10):
        assert bucket.wait_s(0.0) == 0
        bucket.take(1, 0.0)
    bucket.take(1, 0.0)
    assert bucket.wait_s(0.0) == pytest.approx(0.1)
    assert bucket.wait_s(0.1) == pytest.approx(0.0, abs=1e-9)


def test_a_debt_is_paid_off_at_the_rate():
    bucket = TokenBucket(rate=100.0, tokens=100.0, at=0.0)
    bucket.take(10_100, 0.0)
    assert bucket.wait_s(0.0) == pytest.approx(100.0)
    assert bucket.wait_s(60.0) == pytest.approx(40.0)
    assert bucket.wait_s(101.0) == 0


def test_idle_time_is_saved_for_one_second_only():
    bucket = TokenBucket(rate=10.0, tokens=10.0, at=0.0)
    bucket.take(10, 1000.0)
    bucket.take(10, 1000.0)
    assert bucket.wait_s(1000.0) == pytest.approx(1.0)


@given(
    rate=st.floats(0.1, 1000),
    steps=st.lists(st.tuples(st.floats(0, 5), st.integers(1, 50)), min_size=1, max_size=50),
)
def test_whoever_waits_when_told_to_never_gets_more_than_the_rate(rate, steps):
    bucket = TokenBucket(rate=rate, tokens=rate, at=0.0)
    now, taken, largest = 0.0, 0, 0
    for idle_s, count in steps:
        now += idle_s + bucket.wait_s(now + idle_s)
        bucket.take(count, now)
        taken += count
        largest = max(largest, count)
    # The first second's worth, what was earned since, and the last one on credit.
    assert taken <= rate + rate * now + largest + 1e-6 * (1 + taken)
