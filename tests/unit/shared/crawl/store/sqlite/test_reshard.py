"""The files of one generation become those of the next, and nothing is lost on the way."""

import contextlib
from pathlib import Path

import pytest

from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.errors import StateBusy
from manyhands.shared.crawl.store.model import Admitted, LeaseLost
from manyhands.shared.crawl.store.sqlite.directory import (
    generations,
    open_control,
    open_reader,
    open_shard,
    shard_file,
)
from manyhands.shared.crawl.store.sqlite.reshard import LOCK, reshard
from manyhands.shared.crawl.store.whole import old_shard
from manyhands.shared.urls import shard_of_domain
from tests.support.state_content import DOMAINS, NOW, content, fill, urls_of


def ignore(done: int, in_all: int) -> None:
    assert 0 <= done <= in_all


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(old_shard, "ROWS_AT_ONCE", 64)


@pytest.fixture
def control(tmp_path):
    with contextlib.closing(open_control(tmp_path)) as control:
        yield control


@pytest.mark.parametrize(("before", "after"), [(4, 7), (4, 1), (1, 4), (3, 16)])
def test_everything_is_there_under_another_count(tmp_path, control, before, after):
    fill(tmp_path, before)
    expected = content(tmp_path)
    assert len(expected["urls"]) == 2 * 10 * len(DOMAINS)
    reshard(tmp_path, control, after, ignore)
    layout = control.layout(after)
    assert (layout.generation, layout.shards, layout.most_ever) == (2, after, max(before, after))
    assert content(tmp_path) == expected
    assert generations(tmp_path) == [2]


def test_counters_are_a_count_of_the_rows_in_every_shard(tmp_path, control):
    fill(tmp_path, 4)
    reshard(tmp_path, control, 3, ignore)
    for shard in range(3):
        reader = open_reader(tmp_path, 2, shard)
        assert reader is not None
        with contextlib.closing(reader):
            counters = reader.counters(1)
            rows = {state: len(reader.urls(1, state, 0, 100_000)) for state in UrlState}
            assert {state: counters[state.name.lower()] for state in UrlState} == rows
            assert counters["admitted"] == sum(rows.values()) > 0


def test_what_is_seen_stays_seen_and_limits_stay_limits(tmp_path, control):
    fill(tmp_path, 4)
    reshard(tmp_path, control, 3, ignore)
    domain = DOMAINS[0]
    shard = shard_of_domain(domain, 3)
    epoch = control.claim_lease(shard, "owner", 60.0)
    with contextlib.closing(open_shard(tmp_path, 2, shard, epoch, NOW)) as store:
        more = urls_of(domain, 7)
        in_scope = more[5]._replace(scope_name=f"www.{domain}")
        elsewhere = more[6]._replace(scope_name="elsewhere.com")
        with store.transaction():
            assert store.admit(1, more[:5], NOW) == Admitted(duplicates=5)
            assert store.admit(1, [in_scope, elsewhere], NOW, host_limit=6) == Admitted(
                new=1, out_of_scope=1
            )
            assert store.admit(1, [more[6]], NOW, host_limit=6) == Admitted(over_host_limit=1)


def test_links_that_have_arrived_are_not_sent_again(tmp_path, control):
    fill(tmp_path, 2)
    sent = content(tmp_path)["links"]
    epoch = control.claim_lease(0, "owner", 0.0)
    with contextlib.closing(open_shard(tmp_path, 1, 0, epoch, NOW)) as store, store.transaction():
        assert store.receive([(1, 1), (1, 2), (1, 4)]) == [0, 1, 2]
    reshard(tmp_path, control, 5, ignore)
    assert len(content(tmp_path)["links"]) == len(sent) - 3


def test_the_same_count_changes_nothing_but_clears_away_what_was_left(tmp_path, control):
    fill(tmp_path, 4)
    expected = content(tmp_path)
    (tmp_path / "gen-2").mkdir()
    (tmp_path / "gen-3.part").mkdir()
    control.claim_lease(0, "reshard", 60.0)
    reshard(tmp_path, control, 4, ignore)
    assert [path.name for path in tmp_path.glob("gen-*")] == ["gen-1"]
    assert content(tmp_path) == expected


def test_a_state_without_any_file_gets_its_first_layout(tmp_path, control):
    reshard(tmp_path, control, 4, ignore)
    reshard(tmp_path, control, 8, ignore)
    assert control.layout(8).shards == 8


class Interrupted(Exception):
    """In the middle of it."""


def interrupted_reshard(directory: Path, shards: int, calls: int) -> bool:
    """Whether it was interrupted: after so many reports of its progress."""
    left = calls

    def on_progress(done: int, in_all: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Interrupted

    with contextlib.closing(open_control(directory)) as control:
        try:
            reshard(directory, control, shards, on_progress)
        except Interrupted:
            return True
    return False


def test_wherever_it_is_interrupted_it_goes_on(tmp_path):
    fill(tmp_path, 4)
    expected = content(tmp_path)
    calls = 0
    while interrupted_reshard(tmp_path, 6, calls):
        assert generations(tmp_path)[0] == 1
        calls += 3
    assert calls > 15
    assert content(tmp_path) == expected
    assert generations(tmp_path) == [2]


def test_an_interrupted_one_can_be_given_up(tmp_path, control):
    fill(tmp_path, 4)
    expected = content(tmp_path)
    assert interrupted_reshard(tmp_path, 6, 5)
    reshard(tmp_path, control, 4, ignore)
    assert content(tmp_path) == expected
    assert control.layout(4).generation == 1


def test_shards_with_an_owner_are_left_alone(tmp_path, control):
    fill(tmp_path, 4)
    control.claim_lease(2, "owner", 60.0)
    with pytest.raises(StateBusy, match="shard 2"):
        reshard(tmp_path, control, 6, ignore)
    assert [lease.is_live for lease in control.leases()] == [False, False, True, False]


def test_the_new_shards_can_be_claimed_from_the_moment_when_they_count(tmp_path, control):
    fill(tmp_path, 2)
    epochs = {shard: control.claim_lease(shard, "reshard", 60.0) for shard in range(2)}
    control.finish_reshard(2, 3, epochs)
    assert not any(lease.is_live for lease in control.leases())


def test_an_owner_that_comes_meanwhile_stops_it(tmp_path, control):
    fill(tmp_path, 4)

    def on_progress(done: int, in_all: int) -> None:
        if done == in_all:
            control.leave("reshard")
            control.claim_lease(1, "owner", 60.0)

    with pytest.raises(LeaseLost):
        reshard(tmp_path, control, 6, on_progress)
    assert control.layout(6).shards == 4


def test_earlier_owners_can_change_nothing_any_more(tmp_path, control):
    fill(tmp_path, 4)
    epoch = control.claim_lease(1, "owner", 0.0)
    with contextlib.closing(open_shard(tmp_path, 1, 1, epoch, NOW)) as owner:
        reshard(tmp_path, control, 6, ignore)
        with pytest.raises(LeaseLost), owner.transaction():
            pass
    with pytest.raises(LeaseLost, match="anew"):
        open_shard(tmp_path, 1, 1, 99, NOW)
    assert not shard_file(tmp_path, 1, 1).exists()


def test_one_process_at_a_time_does_it(tmp_path, control):
    fill(tmp_path, 2)

    def on_progress(done: int, in_all: int) -> None:
        with pytest.raises(StateBusy, match="another process"):
            reshard(tmp_path, control, 3, ignore)

    reshard(tmp_path, control, 3, on_progress)
    assert (tmp_path / LOCK).exists()
