"""Of unique fetch jobs of one URL, one is fetched in the time that they ask for, whatever becomes
of the others and however often each of them comes."""

import contextlib
from collections.abc import Sequence

import pytest

from manyhands.shared.crawl.fetch_jobs import FetchJob, url_key
from manyhands.shared.crawl.messages import NO_CRAWL
from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import JobRow, NewJob, Settled, Unique
from manyhands.shared.crawl.store.opening import store_at
from manyhands.shared.crawl.store.postgres import fence
from manyhands.shared.crawl.store.postgres.schema import SHARD as POSTGRES_SHARD
from manyhands.shared.crawl.store.protocol import ShardReader, ShardStore
from manyhands.shared.crawl.store.sqlite.database import open_file
from manyhands.shared.crawl.store.sqlite.directory import open_shard, shard_file
from manyhands.shared.crawl.store.sqlite.schema import SHARD, Schema
from manyhands.shared.urls import shard_of_domain
from tests.contract.state.conftest import PostgresStores, Stores
from tests.contract.state.helpers import NOW, SITE, claim, origin_id, settle, url
from tests.support.state_places import KINDS, NewPlace, checked, copied

HOUR = 3600.0
PAGE = f"{SITE}/page"


def job(name: str, turn: int = 0, hop: int = 0) -> FetchJob:
    return FetchJob(f'job-"{name}', PAGE, hop, turn, 8, 300, "", {})


def new_job(name: str, for_s: float = HOUR, text: str = PAGE, turn: int = 0) -> NewJob:
    one = job(name, turn)
    new = url(text)._replace(key=one.key, job=one.to_text())
    return NewJob(new, Unique(url_key(new.url), one.id, turn, for_s) if for_s else None)


def same(shard: ShardStore, *jobs: NewJob, now: float = NOW) -> list[int]:
    """The places of those that are the same as others."""
    with shard.transaction():
        return sorted(shard.admit_jobs(jobs, now))


def end(shard: ShardStore, state: UrlState, now: float = NOW) -> None:
    """The one that waits."""
    (claimed,) = claim(shard, origin_id(shard), crawl=NO_CRAWL, now=now)
    settle(shard, Settled(claimed.id, state, 200, "why"), now=now)


def rows_of(reader: ShardReader, names: Sequence[str]) -> dict[str, JobRow]:
    rows = reader.jobs([job(name).key for name in names])
    return {names[row.place]: row for row in rows}


def test_the_second_of_a_url_is_the_same_as_the_first_and_says_so(stores: Stores, shard):
    assert same(shard, new_job("a")) == []
    assert same(shard, new_job("b"), now=NOW + HOUR - 1) == [0]
    reader = stores.reader()
    assert reader is not None
    found = rows_of(reader, ["a", "b"])
    assert (found["a"].state, found["b"].state) == (UrlState.QUEUED, UrlState.SAME)
    assert (found["b"].reason, found["b"].url) == (job("a").id, PAGE)
    assert found["b"].updated_at == NOW + HOUR - 1
    counters = reader.counters(NO_CRAWL)
    assert (counters["same"], counters["queued"], counters["admitted"]) == (1, 1, 2)
    assert [FetchJob.of_text(one.job) for one in claim(shard, origin_id(shard), crawl=0)] == [
        job("a")
    ]


def test_of_many_that_come_at_once_one_is_fetched_of_each_url(shard):
    other = f"{SITE}/other"
    jobs = [new_job("a"), new_job("b", text=other), new_job("c", 0), new_job("d"), new_job("a")]
    assert same(shard, *jobs, new_job("e", text=other), new_job("f", 0)) == [3, 5]
    found = rows_of(shard, ["a", "b", "c", "d", "e", "f"])
    assert [name for name, row in found.items() if row.state is UrlState.QUEUED] == [*"abcf"]
    assert (found["d"].reason, found["e"].reason) == (job("a").id, job("b").id)


def test_what_is_not_unique_is_the_same_as_nothing_and_nothing_as_it(shard):
    assert same(shard, new_job("a", 0)) == []
    assert same(shard, new_job("b")) == []
    assert same(shard, new_job("c", 0)) == []
    assert same(shard, new_job("d")) == [0]


def test_when_the_time_is_over_the_next_is_fetched_and_counts_from_then_on(shard):
    assert same(shard, new_job("a")) == []
    assert same(shard, new_job("b"), now=NOW + HOUR) == []
    assert same(shard, new_job("c"), now=NOW + 2 * HOUR - 1) == [0]
    assert rows_of(shard, ["c"])["c"].reason == job("b").id


@pytest.mark.parametrize(("first_s", "second_s"), [(60.0, HOUR), (HOUR, 60.0)])
def test_of_two_times_the_shorter_one_counts(shard, first_s, second_s):
    assert same(shard, new_job("a", first_s)) == []
    assert same(shard, new_job("b", second_s), now=NOW + 59) == [0]
    assert same(shard, new_job("c", second_s), now=NOW + 60) == []


@pytest.mark.parametrize("state", [UrlState.DONE, UrlState.PARSING, UrlState.REDIRECTED])
def test_a_page_is_not_fetched_again(shard, state):
    assert same(shard, new_job("a")) == []
    end(shard, state)
    assert same(shard, new_job("b")) == [0]


@pytest.mark.parametrize("state", [UrlState.FAILED, UrlState.DISALLOWED, UrlState.SKIPPED])
def test_one_that_came_to_nothing_is_not_the_first_any_more(shard, state):
    assert same(shard, new_job("a")) == []
    end(shard, state)
    assert same(shard, new_job("b"), new_job("c")) == [1]
    assert rows_of(shard, ["c"])["c"].reason == job("b").id


def test_so_it_is_after_a_redirect_within_the_shard(shard):
    assert same(shard, new_job("a")) == []
    end(shard, UrlState.REDIRECTED)
    target = url(f"{SITE}/target")._replace(key=job("a", hop=1).key, job=job("a", hop=1).to_text())
    same(shard, NewJob(target))
    assert same(shard, new_job("b")) == [0]
    end(shard, UrlState.FAILED)
    assert same(shard, new_job("c")) == []


def test_a_dead_one_that_is_requeued_is_fetched_unless_another_one_was(shard):
    assert same(shard, new_job("a")) == []
    end(shard, UrlState.FAILED)
    assert same(shard, new_job("a", turn=1)) == []
    assert same(shard, new_job("b")) == [0]
    end(shard, UrlState.FAILED)
    assert same(shard, new_job("c")) == []
    assert same(shard, new_job("a", turn=2)) == [0]
    (row,) = shard.jobs([job("a", turn=2).key])
    assert (row.state, row.reason) == (UrlState.SAME, job("c").id)


def test_whichever_comes_again_changes_nothing(shard):
    assert same(shard, new_job("a")) == []
    assert same(shard, new_job("b")) == [0]
    before = shard.counters(NO_CRAWL)
    for _ in range(2):
        assert same(shard, new_job("a"), new_job("b"), now=NOW + 2 * HOUR) == []
    after = shard.counters(NO_CRAWL)
    assert {name for name in after if after[name] != before[name]} <= {"changes", "duplicates"}


def test_one_that_is_forgotten_is_still_the_first_until_its_time_is_over(shard):
    assert same(shard, new_job("a"), new_job("b")) == [1]
    end(shard, UrlState.DONE)
    with shard.transaction():
        assert shard.forget_jobs(NOW + 1, 10) == 2
        assert shard.forget_first_jobs(NOW + 1, 10) == 0
    assert rows_of(shard, ["a", "b"]) == {}
    counters = shard.counters(NO_CRAWL)
    assert not any(counters[name] for name in ("admitted", "same", "done", "queued"))
    # It does not come back either.
    assert same(shard, new_job("a"), new_job("c"), now=NOW + 2) == [1]
    assert rows_of(shard, ["a", "c"])["c"].reason == job("a").id
    with shard.transaction():
        assert shard.forget_first_jobs(NOW + HOUR, 10) == 1
        assert shard.forget_first_jobs(NOW + HOUR, 10) == 0


def test_one_that_came_to_nothing_is_not_the_first_when_it_is_forgotten_either(shard):
    assert same(shard, new_job("a")) == []
    end(shard, UrlState.FAILED)
    key = url_key(PAGE)
    with shard.transaction():
        shard.jobs_told([one.id for one in shard.untold_jobs(10)])
        for other in (("x", 0), (job("a").id, 1)):
            shard.came_to_nothing(key, *other)
        assert shard.forget_jobs(NOW + 1, 10) == 1
    assert same(shard, new_job("b"), now=NOW + 2) == [0]
    with shard.transaction():
        shard.came_to_nothing(key, job("a").id, 0)
    assert same(shard, new_job("c"), now=NOW + 2) == []


def test_they_are_forgotten_a_part_at_a_time(shard):
    jobs = [new_job(str(number), text=f"{SITE}/{number}") for number in range(5)]
    assert same(shard, *jobs) == []
    with shard.transaction():
        assert [shard.forget_first_jobs(NOW + HOUR, 3) for _ in range(3)] == [3, 2, 0]


def test_one_that_is_the_same_is_never_told_of_as_dead(shard):
    assert same(shard, new_job("a"), new_job("b")) == [1]
    end(shard, UrlState.FAILED)
    with shard.transaction():
        (untold,) = shard.untold_jobs(10)
    assert FetchJob.of_text(untold.job) == job("a")


def test_the_next_owner_knows_them(stores: Stores, shard):
    assert same(shard, new_job("a")) == []
    claim(shard, origin_id(shard), crawl=NO_CRAWL)
    assert same(stores.shard(epoch=2), new_job("b")) == [0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", KINDS)
def test_another_number_of_shards_knows_them_too(new_place: NewPlace, kind, other):
    place, copy, shards = new_place(kind), new_place(other), 3
    sites = [f"http://www.example{number}.com/" for number in range(6)]
    with contextlib.closing(store_at((place,))) as store:
        control = store.open_control()
        control.layout(1)
        shard = store.open_shard(1, 0, control.claim_lease(0, "owner", 0.0) or 0, NOW)
        assert same(shard, *(new_job(site, text=site) for site in sites)) == []
        assert same(shard, new_job("same", text=sites[0])) == [0]
        shard.close()
        control.close()
    copied(place, copy, shards)
    assert checked(copy).differences == []
    with contextlib.closing(store_at((copy,))) as store:
        control = store.open_control()
        generation, found = control.layout(shards).generation, 0
        for number in range(shards):
            epoch = control.claim_lease(number, "owner", 0.0) or 0
            shard = store.open_shard(generation, number, epoch, NOW)
            mine = [
                new_job(f"{site} again", text=site)
                for site in sites
                if shard_of_domain(site.split("www.")[1][:-1], shards) == number
            ]
            assert same(shard, *mine) == list(range(len(mine)))
            found += shard.counters(NO_CRAWL)["same"]
            shard.close()
        assert found == len(sites) + 1
        control.close()


def test_a_file_from_before_there_were_any_gets_them(tmp_path):
    path = shard_file(tmp_path, 1, 0)
    open_file(path, Schema(SHARD.application_id, SHARD.migrations[:3])).close()
    with contextlib.closing(open_shard(tmp_path, 1, 0, 1, NOW)) as shard:
        assert same(shard, new_job("a"), new_job("b")) == [1]


def test_tables_from_before_there_were_any_get_them(postgres, monkeypatch):
    with contextlib.ExitStack() as opened:
        stores = PostgresStores(postgres.url, opened)
        monkeypatch.setattr(fence, "SHARD", POSTGRES_SHARD[:2])
        stores.shard(epoch=1)
        monkeypatch.undo()
        assert same(stores.shard(epoch=2), new_job("a"), new_job("b")) == [1]
