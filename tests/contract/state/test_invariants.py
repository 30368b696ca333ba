"""Whatever an owner does, in whatever order: the counters are a count of the rows, and no URL is
there twice."""

import contextlib
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import ClaimedUrl, NewUrl, Settled
from manyhands.shared.crawl.store.protocol import ShardReader, ShardStore
from tests.contract.state.conftest import Stores
from tests.contract.state.helpers import NOW, state_counts, url, waiting

CRAWLS = (1, 2)
SITES = ("http://a.com", "https://a.com", "http://www.a.com", "http://b.org")
URLS = [url(f"{site}/{page}") for site in SITES for page in range(6)]
MANY = 1000


@dataclass
class Owner:
    """State: the shard as its present owner has it, and what was ever admitted or claimed."""

    stores: Stores
    epoch: int = 1
    now: float = NOW
    admitted: set[tuple[int, bytes]] = field(default_factory=set)
    claimed: list[ClaimedUrl] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shard: ShardStore = self.stores.shard(self.epoch, self.now)

    def admit(self, crawl: int, urls: list[NewUrl], host_limit: int | None) -> None:
        before = len(self.admitted)
        with self.shard.transaction():
            admitted = self.shard.admit(crawl, urls, self.now, host_limit=host_limit)
        refused = admitted.over_host_limit + admitted.out_of_scope
        assert admitted.new + admitted.duplicates + refused == len(urls)
        if not refused:
            self.admitted |= {(crawl, one.key) for one in urls}
            assert len(self.admitted) - before == admitted.new
        else:
            # Which ones were refused is for the store to say.
            self.admitted |= {(crawl, key) for key in keys(self.shard, crawl)}

    def claim(self, crawl: int, limit: int, is_kept: bool) -> None:
        with self.shard.transaction():
            for domain in self.shard.take_domains(self.now, 2):
                for origin in domain.origins:
                    self.claimed += self.shard.claim(origin.id, crawl, self.now, limit)
                keep = self.shard.keep_domain if is_kept else self.shard.put_domain
                keep(domain.id, self.now + 1, 1.0)

    def settle(self, state: UrlState, number: int) -> None:
        settled, self.claimed = self.claimed[:number], self.claimed[number:]
        with self.shard.transaction():
            self.shard.settle(
                [Settled(one.id, state, 200, "why", 10, 1, self.now + 1) for one in settled],
                self.now,
            )

    def parsed(self, crawl: int, number: int) -> None:
        with self.shard.transaction():
            self.shard.parsed(crawl, [URLS[number].key], self.now)

    def readmit(self, limit: int) -> None:
        with self.shard.transaction():
            self.shard.readmit(self.now + 1, self.now, 2, limit)

    def cancel(self, crawl: int, limit: int) -> None:
        with self.shard.transaction():
            self.shard.cancel(crawl, limit)

    def purge(self, crawl: int, limit: int) -> None:
        with self.shard.transaction():
            self.shard.purge(crawl, "a.com", limit)

    def take_over(self) -> None:
        self.epoch += 1
        self.shard = self.stores.shard(self.epoch, self.now)

    def fail(self, crawl: int, urls: list[NewUrl]) -> None:
        with contextlib.suppress(InterruptedError), self.shard.transaction():
            self.shard.admit(crawl, urls, self.now)
            self.shard.cancel(crawl, MANY)
            raise InterruptedError

    def wait(self) -> None:
        self.now += 2


def keys(reader: ShardReader, crawl: int) -> list[bytes]:
    by_text = {one.url: one.key for one in URLS}
    return [by_text[row.url] for state in UrlState for row in reader.urls(crawl, state, 0, MANY)]


def check(owner: Owner) -> None:
    queued: Counter[str] = Counter()
    for crawl in CRAWLS:
        rows = [row for state in UrlState for row in owner.shard.urls(crawl, state, 0, MANY)]
        assert state_counts(owner.shard, crawl) == Counter(row.state for row in rows)
        assert owner.shard.counters(crawl)["admitted"] == len(rows)
        assert len(rows) == len({row.url for row in rows})
        assert len(rows) == len([of for of, _ in owner.admitted if of == crawl])
        queued += Counter(
            row.url.rpartition("/")[0] for row in rows if row.state is UrlState.QUEUED
        )
    assert waiting(owner.shard) == queued


crawls = st.sampled_from(CRAWLS)
few = st.integers(1, 5)
urls = st.lists(st.sampled_from(URLS), max_size=12)
OPERATIONS = st.one_of(
    st.tuples(st.just(Owner.admit), crawls, urls, st.none() | few),
    st.tuples(st.just(Owner.claim), crawls, few, st.booleans()),
    st.tuples(st.just(Owner.settle), st.sampled_from(UrlState), few),
    st.tuples(st.just(Owner.parsed), crawls, st.integers(0, len(URLS) - 1)),
    st.tuples(st.just(Owner.readmit), few),
    st.tuples(st.just(Owner.cancel), crawls, few),
    st.tuples(st.just(Owner.purge), crawls, few),
    st.tuples(st.just(Owner.take_over)),
    st.tuples(st.just(Owner.fail), crawls, urls),
    st.tuples(st.just(Owner.wait)),
)


# Sixty lives, each in a state of its own: on a busy machine that takes a while.
@pytest.mark.timeout(150)
@given(operations=st.lists(OPERATIONS, max_size=25))
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_the_counters_are_a_count_of_the_rows(make_stores, tmp_path_factory, operations):
    with contextlib.ExitStack() as opened:
        owner = Owner(make_stores(tmp_path_factory.mktemp("state"), opened))
        for operation, *arguments in operations:
            operation(owner, *arguments)
            check(owner)
