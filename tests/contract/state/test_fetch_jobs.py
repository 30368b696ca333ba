"""Fetch jobs are URLs of no crawl: found by key, told of when they brought no page, forgotten."""

import contextlib

import pytest

from manyhands.shared.crawl.fetch_jobs import FetchJob
from manyhands.shared.crawl.messages import NO_CRAWL
from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.model import Admitted, NewUrl, Settled
from manyhands.shared.crawl.store.opening import store_at
from manyhands.shared.crawl.store.protocol import ShardReader, ShardStore
from tests.contract.state.conftest import Stores
from tests.contract.state.helpers import NOW, SITE, admit, claim, origin_id, settle, url
from tests.support.state_places import KINDS, NewPlace, checked, copied

LATER = NOW + 1000


def job(number: int) -> FetchJob:
    return FetchJob(f"job-{number}", f'{SITE}/"ü\\{{{number}', 0, 0, 8, 300, "", {"n": number})


def new_job(number: int) -> NewUrl:
    return url(f"{SITE}/page")._replace(key=job(number).key, job=job(number).to_text())


def admit_jobs(shard: ShardStore, number: int) -> Admitted:
    return admit(shard, [new_job(one) for one in range(number)], NO_CRAWL)


def end(shard: ShardStore, *states: UrlState) -> None:
    """The first jobs, one after the other."""
    claimed = claim(shard, origin_id(shard), len(states), NO_CRAWL)
    ends = [
        Settled(one.id, state, 500, f"because of {state.name}")
        for one, state in zip(claimed, states, strict=True)
    ]
    settle(shard, *ends, now=LATER)


def states_by_key(reader: ShardReader, number: int) -> dict[int, UrlState]:
    keys = [job(one).key for one in range(number)]
    return {row.place: row.state for row in reader.jobs(keys)}


def test_two_jobs_of_one_url_are_two_and_one_that_comes_twice_is_one(shard):
    assert admit_jobs(shard, 2) == Admitted(new=2)
    assert admit_jobs(shard, 3) == Admitted(new=1, duplicates=2)


def test_what_a_job_was_comes_with_its_claim(shard):
    admit_jobs(shard, 2)
    admit(shard, [url(f"{SITE}/of-a-crawl")])
    claimed = claim(shard, origin_id(shard), crawl=NO_CRAWL)
    assert [FetchJob.of_text(one.job) for one in claimed] == [job(0), job(1)]
    assert [one.job for one in claim(shard, origin_id(shard))] == [""]


def test_a_job_is_found_by_its_key_and_says_until_when_it_waits(stores: Stores, shard):
    admit_jobs(shard, 3)
    end(shard, UrlState.DONE, UrlState.QUEUED)
    (origin,) = [one for domain in shard.waiting_domains(9) for one in domain.origins]
    with shard.transaction():
        shard.keep_origin(origin.id, NOW + 77, b"")
    reader = stores.reader()
    assert reader is not None
    found = {row.place: row for row in reader.jobs([job(one).key for one in (0, 7, 2)])}
    assert found.keys() == {0, 2}
    assert found[0].state is UrlState.DONE
    assert (found[0].status, found[0].updated_at) == (500, LATER)
    assert (found[2].state, found[2].due_at) == (UrlState.QUEUED, NOW + 77)


def test_jobs_of_all_shards_are_found_with_one_question(stores: Stores, control):
    layout = control.layout(3)
    for number in range(3):
        admit(stores.shard(1, number=number), [new_job(number)], NO_CRAWL)
    found = stores.readers().jobs(layout, [job(number).key for number in range(5)])
    assert sorted(row.place for row in found) == [0, 1, 2]


def test_jobs_that_brought_no_page_are_told_of_until_they_were(shard):
    admit_jobs(shard, 5)
    bad = (UrlState.FAILED, UrlState.DISALLOWED, UrlState.SKIPPED)
    end(shard, UrlState.DONE, *bad, UrlState.REDIRECTED)
    with shard.transaction():
        untold = shard.untold_jobs(10)
        assert [one.state for one in untold] == list(bad)
        assert untold[0].reason == "because of FAILED"
        assert FetchJob.of_text(untold[0].job) == job(1)
        assert len(shard.untold_jobs(2)) == 2
    with shard.transaction():
        shard.jobs_told([untold[0].id])
        assert [one.id for one in shard.untold_jobs(10)] == [one.id for one in untold[1:]]


def test_hosts_that_are_given_up_and_purges_are_told_of(shard):
    admit_jobs(shard, 2)
    with shard.transaction():
        assert shard.give_up(NO_CRAWL, origin_id(shard), "gone", 1) == 1
        assert shard.purge(NO_CRAWL, "example.com", 5) == 1
        assert [one.reason for one in shard.untold_jobs(10)] == ["gone", "purged"]


def test_what_ended_long_ago_is_forgotten_a_part_at_a_time(stores: Stores, shard):
    admit_jobs(shard, 6)
    end(shard, UrlState.DONE, UrlState.REDIRECTED, UrlState.DONE, UrlState.FAILED)
    with shard.transaction():
        assert shard.forget_jobs(LATER, 10) == 0
    with shard.transaction():
        assert shard.forget_jobs(LATER + 1, 2) == 2
    with shard.transaction():
        # One that was not told stays.
        assert shard.forget_jobs(LATER + 1, 10) == 1
        assert states_by_key(shard, 6) == {
            3: UrlState.FAILED,
            4: UrlState.QUEUED,
            5: UrlState.QUEUED,
        }
        shard.jobs_told([one.id for one in shard.untold_jobs(10)])
        assert shard.forget_jobs(LATER + 1, 10) == 1
    counters = shard.counters(NO_CRAWL)
    assert (counters["admitted"], counters["queued"]) == (2, 2)
    assert not any(counters[name] for name in ("done", "failed", "redirected"))
    # Its key may come again.
    assert admit_jobs(shard, 1) == Admitted(new=1)


def test_a_page_of_a_job_is_done_without_an_answer_and_never_fetched_again(shard):
    admit_jobs(shard, 2)
    end(shard, UrlState.PARSING, UrlState.PARSING)
    with shard.transaction():
        assert shard.parsed(NO_CRAWL, [job(0).key], LATER) == [0]
        assert shard.readmit(LATER, LATER, 3, 10) == 0
        assert states_by_key(shard, 2) == {0: UrlState.DONE, 1: UrlState.PARSING}
    with shard.transaction():
        assert shard.readmit(LATER + 1, LATER + 900, 3, 10) == 0
    assert states_by_key(shard, 2) == {0: UrlState.DONE, 1: UrlState.DONE}
    counters = shard.counters(NO_CRAWL)
    assert (counters["done"], counters["parsing"], counters["pages"]) == (2, 0, 2)


def test_urls_of_crawls_are_never_forgotten(shard):
    admit(shard, [url(f"{SITE}/page")])
    (claimed,) = claim(shard, origin_id(shard))
    settle(shard, Settled(claimed.id, UrlState.FAILED, 0, "why"))
    with shard.transaction():
        assert shard.untold_jobs(10) == []
        assert shard.forget_jobs(LATER, 10) == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", KINDS)
def test_a_copy_has_the_jobs_and_is_sound(new_place: NewPlace, kind, other):
    place, copy = new_place(kind), new_place(other)
    with contextlib.closing(store_at((place,))) as store:
        control = store.open_control()
        control.layout(1)
        epoch = control.claim_lease(0, "owner", 0.0) or 0
        shard = store.open_shard(1, 0, epoch, NOW)
        admit_jobs(shard, 4)
        end(shard, UrlState.DONE, UrlState.FAILED)
        with shard.transaction():
            shard.forget_jobs(LATER + 1, 1)
        shard.close()
        control.close()
    copied(place, copy, 1)
    assert checked(copy).differences == []
    with contextlib.closing(store_at((copy,))) as store:
        control = store.open_control()
        epoch = control.claim_lease(0, "owner", 0.0) or 0
        layout = control.layout(1)
        shard = store.open_shard(layout.generation, 0, epoch, NOW)
        with shard.transaction():
            (untold,) = shard.untold_jobs(10)
        assert FetchJob.of_text(untold.job) == job(1)
        claimed = claim(shard, origin_id(shard), crawl=NO_CRAWL)
        assert [FetchJob.of_text(one.job) for one in claimed] == [job(2), job(3)]
        shard.close()
        control.close()
