"""A state that is copied to another place: between all kinds of stores, and to other numbers of
shards."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from manyhands.shared.crawl.spec import CrawlSpec
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.errors import StateBusy, StateError
from manyhands.shared.crawl.store.model import DomainRule, KeyConflict, Member, NewCrawl
from manyhands.shared.crawl.store.opening import store_at
from manyhands.shared.crawl.store.protocol import ControlStore
from manyhands.shared.crawl.store.whole import copying, old_shard
from manyhands.shared.urls import shard_of_domain
from tests.support.state_content import DOMAINS, NOW, content, fill
from tests.support.state_places import KINDS, NewPlace, checked, copied

SHARDS = 3
OTHERS = 5
EXCLUSIONS = "*/private/*\n"
PAIRS = [(one, other) for one in KINDS for other in KINDS]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(old_shard, "ROWS_AT_ONCE", 100)


@contextlib.contextmanager
def control_of(place: str) -> Iterator[ControlStore]:
    with (
        contextlib.closing(store_at((place,))) as store,
        contextlib.closing(store.open_control()) as control,
    ):
        yield control


def filled(place: str) -> str:
    """With something of everything, also in the control store."""
    fill(place, SHARDS)
    with control_of(place) as control:
        control.change_state(1, {CrawlState.STARTING}, CrawlState.RUNNING, NOW + 1)
        control.all_seeds_added(1, 17)
        control.files.keep_exclusions(2, EXCLUSIONS)
        control.set_rule(DomainRule(None, "everywhere.com", 3.0, False))
        control.set_rule(DomainRule(1, "blocked.com", None, True))
        for domain in DOMAINS[:5]:
            control.order_purge(shard_of_domain(domain, SHARDS), 1, domain)
        assert control.grant_pages(1, "a member", 30, 100) == 30
        control.note(1, "something happened", NOW)
        control.create_crawl(NewCrawl(CrawlSpec(contact="me@example.org"), "a key", b"print"), NOW)
    return place


def control_content(place: str) -> dict[str, Any]:
    """All of it that must be the same in a copy."""
    with control_of(place) as control:
        shards = control.layout(0).shards
        control.layout(shards)
        purges = [(purge, shard) for shard in range(shards) for purge in control.purges(shard)]
        assert all(shard_of_domain(purge.domain, shards) == shard for purge, shard in purges)
        return {
            "tag": control.tag(),
            "crawls": control.crawls(0, 100, max_bytes=1_000_000),
            "exclusions": [control.files.exclusions(crawl) for crawl in (1, 2)],
            "rules": control.rules(),
            "purges": sorted((purge.crawl, purge.domain) for purge, _ in purges),
            "grants": control.granted_pages(1),
            "notes": control.notes(1, 100)[-1],
        }


class Interrupted(Exception):
    """In the middle of it."""


@pytest.mark.parametrize(("kind", "other"), PAIRS)
def test_everything_goes_along(new_place: NewPlace, kind: str, other: str) -> None:
    source, target = filled(new_place(kind)), new_place(other)
    control = control_content(source)
    with control_of(source) as old:
        generation = old.layout(SHARDS).generation
    done = copied(source, target, OTHERS)
    assert done is not None
    # What was claimed when the owners went.
    assert (done.shards, done.urls, done.again) == (OTHERS, 800, 80)
    assert control_content(target) == control
    with control_of(target) as new:
        layout = new.layout(OTHERS)
        # A message of the old layout must not be taken for one of the new.
        assert (layout.generation > generation, layout.shards, layout.most_ever) == (True, 5, 5)
        with pytest.raises(KeyConflict):
            new.create_crawl(NewCrawl(CrawlSpec(contact="me@example.org"), "a key", b"other"), NOW)
        crawl, _ = new.create_crawl(NewCrawl(CrawlSpec(contact="me@example.org")), NOW)
        assert crawl.id == 4
        in_flight = 0
        for number in (1, 2):
            [(_, last), (_, before)] = new.notes(number, 2)
            assert last.startswith("copied from ")
            assert before.endswith(
                "URLs that were in flight are fetched again: the state was copied"
            )
            in_flight += int(before.split()[0])
        assert in_flight == done.again
    assert checked(target).differences == []


@pytest.mark.parametrize(("kind", "other"), [("sqlite", "postgres"), ("postgres", "postgres")])
def test_there_and_back_it_is_the_same(new_place: NewPlace, kind: str, other: str) -> None:
    """Also to where it came from."""
    place, elsewhere = new_place(kind), new_place(other)
    fill(place, SHARDS)
    expected = content(place)
    copied(place, elsewhere, OTHERS)
    assert content(elsewhere) == expected
    copied(elsewhere, place)
    assert content(place) == expected
    copied(place, elsewhere, 1)
    assert content(elsewhere) == expected
    assert checked(elsewhere).differences == []


def interrupted(source: str, target: str, calls: int) -> None:
    """After so many reports of its progress."""
    reports = iter(range(calls))

    def on_progress(done: int, in_all: int) -> None:
        if next(reports, None) is None:
            raise Interrupted

    with pytest.raises(Interrupted):
        copied(source, target, OTHERS, on_progress)


@pytest.mark.parametrize(("kind", "other"), [("sqlite", "postgres"), ("postgres", "sqlite")])
def test_wherever_it_is_interrupted_it_can_be_repeated(
    new_place: NewPlace, kind: str, other: str
) -> None:
    source, target = new_place(kind), new_place(other)
    fill(source, SHARDS)
    expected = content(source)
    for calls in (0, 3, 7):
        interrupted(source, target, calls)
        # Nobody uses half a copy, and the original can go on.
        with pytest.raises(StateError, match="not finished: repeat"):
            content(target)
        assert content(source) == expected
    copied(source, target, OTHERS)
    assert content(target) == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", ["leave_for_good", "open_to_services"])
def test_it_can_be_repeated_after_its_last_steps_too(
    new_place: NewPlace, monkeypatch: pytest.MonkeyPatch, kind: str, step: str
) -> None:
    source, target = new_place(kind), new_place("sqlite")
    fill(source, SHARDS)
    expected = content(source)

    def interrupt(*_: object) -> None:
        raise Interrupted

    with monkeypatch.context() as patched:
        patched.setattr(copying._Side, step, interrupt)
        with pytest.raises(Interrupted):
            copied(source, target)
    with pytest.raises(StateError, match="not finished: repeat"):
        content(target)
    is_done = copied(source, target) is None
    assert is_done is (step == "open_to_services")
    assert content(target) == expected
    # And once more, for those who did not see that it was done.
    assert copied(source, target) is None


@pytest.mark.parametrize("kind", KINDS)
def test_nobody_goes_on_with_what_was_copied(new_place: NewPlace, kind: str) -> None:
    source, target = new_place(kind), new_place("sqlite")
    fill(source, SHARDS)
    with control_of(source) as opened_before:
        copied(source, target)
        with pytest.raises(StateError, match="copied to another place and go on there"):
            content(source)
        # Such as an API that was not stopped: what it took would be lost.
        with pytest.raises(StateError, match="copied to another place and go on there"):
            opened_before.create_crawl(NewCrawl(CrawlSpec(contact="me@example.org")), NOW)
        assert opened_before.claim_lease(0, "an owner", 5.0) is None
    with pytest.raises(StateError, match="copied to another place and go on there"):
        copied(source, new_place("sqlite"))


@pytest.mark.parametrize("kind", KINDS)
def test_what_an_api_changes_meanwhile_goes_along(new_place: NewPlace, kind: str) -> None:
    source, target = new_place(kind), new_place("sqlite")
    fill(source, SHARDS)
    with control_of(source) as control:

        def on_progress(done: int, in_all: int) -> None:
            if not done:
                control.note(1, "late", NOW)
                control.set_rule(DomainRule(1, "late.com", 9.0, False))

        copied(source, target, OTHERS, on_progress)
    with control_of(target) as copy:
        assert [rule.domain for rule in copy.rules()] == ["late.com"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_owner_stops_it(new_place: NewPlace, kind: str) -> None:
    source, target = new_place(kind), new_place("sqlite")
    fill(source, SHARDS)
    with control_of(source) as control:
        epoch = control.claim_lease(2, "host.1.crawl", 60.0)
        assert epoch is not None
        with pytest.raises(StateBusy, match=r"in use by host\.1\.crawl: stop the workers first"):
            copied(source, target)
        control.release_lease(2, epoch)

        def on_progress(done: int, in_all: int) -> None:
            control.join(Member("host.2.crawl", 10), 60.0)

        # Also one that starts in the middle.
        with pytest.raises(StateBusy, match=r"host\.2\.crawl"):
            copied(source, target, None, on_progress)
        control.leave("host.2.crawl")
        assert not any(lease.is_live for lease in control.leases())
    copied(source, target)


def test_one_that_was_killed_is_waited_for_and_one_that_runs_is_not_disturbed(
    new_place: NewPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "LEASE_S", 0.3)
    source, target = new_place("sqlite"), new_place("sqlite")
    fill(source, SHARDS)
    with control_of(source) as control:
        assert control.claim_lease(1, "copy host.1", 60.0) is not None
        with pytest.raises(StateBusy, match="another `manyhands state copy` is at"):
            copied(source, target)
        control.leave("copy host.1")
        assert control.claim_lease(1, "copy host.1", 0.3) is not None
    assert copied(source, target) is not None


@pytest.mark.parametrize("kind", KINDS)
def test_a_place_that_has_crawls_is_refused(new_place: NewPlace, kind: str) -> None:
    source, target = new_place("sqlite"), new_place(kind)
    fill(source, SHARDS)
    fill(target, SHARDS)
    with pytest.raises(StateError, match="has crawls of another state: name an empty place"):
        copied(source, target)
    with pytest.raises(StateError, match="has the same crawls: name an empty place"):
        copied(source, source)
    with pytest.raises(StateError, match="there is no state in"):
        copied(new_place(kind), target)
    assert len(content(source)["urls"]) == len(content(target)["urls"]) == 800


@pytest.mark.parametrize("kind", KINDS)
def test_a_place_that_was_made_and_has_no_crawls_is_filled(new_place: NewPlace, kind: str) -> None:
    source, target = new_place("sqlite"), new_place(kind)
    fill(source, SHARDS)
    with control_of(source) as control:
        tag = control.tag()
    with control_of(target) as control:
        control.layout(8)
        own_tag = control.tag()
    copied(source, target)
    with control_of(target) as control:
        assert control.tag() == tag != own_tag
        assert control.layout(SHARDS).shards == SHARDS


def test_times_are_those_of_the_clock_of_the_copy(
    new_place: NewPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of one place may be wrong by an hour."""
    source, target = new_place("sqlite"), new_place("sqlite")
    fill(source, SHARDS)
    before = content(source)
    monkeypatch.setattr(copying._Side, "ahead_of", lambda *_: 3600)
    copied(source, target)
    after = content(target)
    assert after["domains"] == {name: at + 3600 for name, at in before["domains"].items()}
    # Those that are put off by a minute can be claimed in the one, and not yet in the other.
    assert after["order"] != before["order"]
    assert all(urls == before["order"][at][: len(urls)] for at, urls in after["order"].items())
    for origin, (queued, ready_at, notes) in before["origins"].items():
        assert after["origins"][origin] == (queued, ready_at + 3600, notes)
    for url, (*rest, updated_at) in before["urls"].items():
        assert after["urls"][url] == (*rest, updated_at + 3600)
