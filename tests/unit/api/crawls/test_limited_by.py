"""What limits a crawl: each situation has its own sentence."""

from dataclasses import replace

import pytest

from manyhands.api.crawls.limited_by import (
    NO_WORKER,
    HeldDomain,
    OwnerFigures,
    PutOff,
    Situation,
    limited_by,
)
from manyhands.shared.crawl.states import FINAL_CRAWL_STATES, CrawlState
from manyhands.shared.crawl.store.model import SeedFile
from tests.unit.api.crawls.made_up import CREATED_AT, a_crawl, counters

A_MOMENT_LATER = CREATED_AT + 1
LATER = CREATED_AT + 1000
BUSY = counters(queued=100, claimed=5, parsing=3)


def situation(
    figures: OwnerFigures | None = None,
    *,
    members: int = 1,
    owned_shards: int = 4,
    seeds_waiting: int = 0,
    **counted: int,
) -> Situation:
    return Situation(
        counters=counters(**counted) if counted else BUSY,
        members=members,
        shards=4,
        owned_shards=owned_shards,
        seeds_waiting=seeds_waiting,
        figures=figures,
    )


def figures(
    *, in_use: int = 10, ready: int = 5, waiting: int = 50, is_parse_behind: bool = False
) -> OwnerFigures:
    return OwnerFigures(
        slots=100,
        slots_in_use=in_use,
        ready_domains=ready,
        waiting_domains=waiting,
        is_parse_behind=is_parse_behind,
    )


@pytest.mark.parametrize("state", sorted(FINAL_CRAWL_STATES))
def test_nothing_limits_a_crawl_that_has_ended(state):
    assert limited_by(a_crawl(state), situation(members=0)) == "it has ended"


@pytest.mark.parametrize(
    ("more", "where", "said"),
    [
        ({"has_all_seeds": False}, situation(members=0), "POST /crawls/7/seeds?last=true"),
        ({}, situation(members=0), NO_WORKER),
        ({"spec": {"seed_file": "seeds.txt"}, "has_all_seeds": False, "seed_file_lines": 12},
         situation(), "12 lines"),
        ({"spec": {"seed_file": "seeds.txt"}, "has_all_seeds": False},
         situation(members=0), NO_WORKER),
        ({}, situation(seeds_waiting=3), "3 batches"),
        ({}, situation(), "about to start"),
    ],
)  # fmt: skip
def test_what_a_crawl_waits_for_before_it_starts(more, where, said):
    assert said in limited_by(a_crawl(CrawlState.STARTING, **more), where)


FILE = SeedFile(7, "seeds.txt", lines=12, reader="me", until=LATER)


@pytest.mark.parametrize(
    ("file", "now", "members", "said"),
    [
        (FILE, A_MOMENT_LATER, 1, "the seed file is being read: 12 lines so far"),
        (FILE._replace(until=0.0, lines=0), A_MOMENT_LATER, 1, "about to be read"),
        (FILE, LATER, 1, "no API that has the seed file seeds.txt is reading it: 12 lines"),
        (
            FILE._replace(trouble="it is gone"),
            LATER,
            1,
            "seeds.txt cannot be read: it is gone: 12",
        ),
        (FILE, A_MOMENT_LATER, 0, f"12 lines so far; {NO_WORKER} to take them"),
    ],
)
def test_who_reads_the_seed_file_or_why_nobody_does(file, now, members, said):
    crawl = a_crawl(CrawlState.STARTING, spec={"seed_file": "seeds.txt"}, has_all_seeds=False)
    where = replace(situation(members=members, seeds_waiting=1), seed_file=file, now=now)
    assert said in limited_by(crawl, where)


def test_a_pause_tells_of_what_is_still_in_flight():
    assert limited_by(a_crawl(CrawlState.PAUSED), situation()) == (
        "paused; 8 URLs are still in flight"
    )
    assert limited_by(a_crawl(CrawlState.PAUSED), situation(queued=100)) == "paused"


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (situation(members=0), NO_WORKER),
        (situation(), "8 URLs in flight"),
        (situation(queued=100), "about to end"),
    ],
)
def test_what_a_stopping_crawl_waits_for(where, said):
    assert said in limited_by(a_crawl(CrawlState.STOPPING), where)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (situation(members=0), NO_WORKER),
        (situation(owned_shards=1), "3 of 4 shards have no owner"),
        (situation(claimed=2, parsing=9), "the last 2 URLs known are being fetched"),
        (situation(parsing=9), "waiting for parse: 9 pages"),
        (situation(outgoing=2), "2 batches"),
        (situation(outgoing=0, seeds_waiting=2), "seeds are being taken"),
        (situation(done=5), "about to end"),
        (situation(), "100 URLs wait"),
        (situation(figures(is_parse_behind=True)), "waiting for parse"),
        (situation(figures(in_use=100)), "slots: all 100"),
        (
            situation(replace(figures(), broker_wait_ms=1500)),
            "broker: it has not answered for 1.5 s",
        ),
        (
            situation(replace(figures(is_parse_behind=True), slow_sink="kafka", sink_wait_ms=7100)),
            "sink kafka: records have waited 7 s",
        ),
        (situation(replace(figures(), slow_sink="kafka", sink_wait_ms=7100)), "5 domains are"),
        (
            situation(replace(figures(), slow_sink="kafka", sink_wait_ms=7100), parsing=9),
            "sink kafka",
        ),
        (situation(replace(figures(in_use=100), processor_percent=97)), "processor: a crawling"),
        (situation(figures(ready=0)), "politeness: 50 domains, all waiting"),
        (situation(figures(ready=0, waiting=0)), "politeness: all waiting for their next time"),
        (situation(figures()), "5 domains are ready"),
        (situation(replace(figures(), shards_away=2)), "waiting for the database: 2 of 4 shards"),
    ],
)
def test_what_limits_a_crawl_that_runs(where, said):
    assert said in limited_by(a_crawl(), where)


def test_the_limit_on_pages_is_told_of_when_it_is_reached():
    crawl = a_crawl(spec={"limits": {"pages": 50}})
    assert "limit pages" in limited_by(crawl, situation(queued=9, pages=50))
    assert "9 URLs wait" in limited_by(crawl, situation(queued=9, pages=49))


def test_hosts_that_are_put_off_are_told_beside_what_else_limits_a_crawl():
    dead = PutOff("http://a.example:81", "connection refused", 3, 1030.0, 1300.0)
    where = replace(situation(figures()), put_off=[dead])
    said = limited_by(a_crawl(), where)
    assert said.startswith("nothing: 5 domains are ready, and slots are free; host put off: ")
    assert "http://a.example:81 (connection refused), tried again at 00:17:10 UTC" in said
    alone = replace(situation(queued=3), put_off=[dead])
    assert limited_by(a_crawl(), alone).startswith("host put off: http://a.example:81")
    assert limited_by(a_crawl(), replace(alone, members=0)) == NO_WORKER


def test_domains_that_are_held_are_told_with_the_way_out():
    running, held = a_crawl(CrawlState.RUNNING), HeldDomain("a.example", is_paused=True, queued=100)
    said = limited_by(running, replace(situation(figures()), held=[held]))
    assert said.endswith("; a.example is paused: URLs wait until it is resumed, or purged")
    blocked = HeldDomain("b.example", is_blocked=True, queued=200)
    where = replace(situation(figures(), queued=300), held=[held, blocked])
    assert limited_by(running, where) == (
        "b.example is blocked and 1 domains more: URLs wait until it is unblocked, or purged"
    )
    assert limited_by(running, replace(where, members=0)) == NO_WORKER
