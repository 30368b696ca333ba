"""What a claim asks of the store, for many domains at once."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from manyhands.shared.crawl.store import clock
from manyhands.shared.crawl.store.protocol import ShardStore
from manyhands.shared.crawl.store.sqlite.directory import open_shard
from manyhands.worker.crawl.frontier.loading import (
    LoadedDomain,
    Named,
    Wanted,
    claim_all,
    load_named,
)
from tests.support.state_content import urls_of

CRAWL = 1


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[ShardStore]:
    with contextlib.closing(open_shard(tmp_path, 0, 0, 1, clock.now())) as shard:
        with shard.transaction():
            for name in ("a.test", "b.test"):
                shard.admit(CRAWL, urls_of(name, 4), clock.now())
        yield shard


def named(name: str, known: tuple[int, ...] = ()) -> Named:
    return Named(name, (CRAWL,), 2, known)


def claimed(loaded: LoadedDomain | None) -> list[str]:
    assert loaded is not None
    return [url.url for claims in loaded.claims.values() for url in claims.urls]


def test_domains_that_are_asked_for_together_come_in_the_order_of_the_questions(shard):
    with shard.transaction():
        second, first, none = load_named(shard, [named("b.test"), named("a.test"), named("c.test")])

    assert all("b.test" in url for url in claimed(second)) and len(claimed(second)) > 0
    assert all("a.test" in url for url in claimed(first)) and len(claimed(first)) > 0
    assert none is None


def test_a_domain_that_is_asked_for_twice_is_given_once(shard):
    with shard.transaction():
        loaded = load_named(shard, [named("a.test"), named("b.test"), named("a.test")])

    assert [one is None for one in loaded] == [False, False, True]
    assert shard.counters(CRAWL)["claimed"] == sum(len(claimed(one)) for one in loaded[:2])


def test_origins_that_are_known_are_left_out(shard):
    [domain] = [one for one in shard.waiting_domains(10) if one.name == "a.test"]
    known = tuple(origin.id for origin in domain.origins)
    with shard.transaction():
        [loaded] = load_named(shard, [named("a.test", known)])

    assert loaded is not None and loaded.claims == {}
    assert shard.counters(CRAWL)["claimed"] == 0


def test_an_origin_that_is_asked_for_twice_gives_its_urls_once(shard):
    origin = shard.waiting_domains(10)[0].origins[0].id
    wanted = Wanted(origin, 2, (CRAWL,))
    with shard.transaction():
        first, second = claim_all(shard, [wanted, wanted])

    assert (len(first.urls), second.urls) == (2, [])
