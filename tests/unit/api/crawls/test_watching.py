"""What /metrics tells of crawls: how much waits, how late it is, how often the store is asked."""

import asyncio
import time
from contextlib import closing
from pathlib import Path

from manyhands.api.crawls.look import Look, crawls_of
from manyhands.api.crawls.store import open_store
from manyhands.api.crawls.watching import MOST_CRAWLS, TOLD_FOR_S, CrawlWatch
from manyhands.api.metrics import as_text, look_figures
from manyhands.shared.crawl.spec import CrawlSpec
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.model import COUNTERS, Due, Member, NewCrawl
from manyhands.shared.crawl.store.sqlite.directory import open_control
from tests.support.crawl_state import crawled

NOTHING = dict.fromkeys(COUNTERS, 0)
NEW = NewCrawl(CrawlSpec(contact="me@example.org"))


def looks(directory: Path, *at_s: float) -> list[Look]:
    """At these times of a clock."""

    async def run() -> list[Look]:
        clock = [0.0]
        store = await open_store((str(directory),), 4)
        watch = CrawlWatch(store, lambda: clock[0])
        found = []
        for clock[0] in at_s:
            found.append(await watch.look())
        await store.close()
        return found

    return asyncio.run(run())


def start(directory: Path, state: CrawlState = CrawlState.RUNNING) -> int:
    with closing(open_control(directory)) as control:
        control.layout(4)
        crawl, _ = control.create_crawl(NEW, time.time())
        control.change_state(crawl.id, [CrawlState.STARTING], state, time.time())
        return crawl.id


def test_a_crawl_is_told_with_what_waits_and_for_how_long(tmp_path):
    crawl = start(tmp_path)
    crawled(tmp_path, 4, crawl, "example.org", "/", "/404", "/wait")
    (look,) = looks(tmp_path, 0.0)
    told = look.crawls[crawl]
    assert (told.counters["queued"], told.counters["done"], told.counters["failed"]) == (1, 1, 1)
    # Its owner is gone: what it had in memory is due.
    assert told.due == 1
    assert 0 <= told.lag_s < 3600
    assert (look.members, look.unowned_shards, look.left_out) == (0, 4, 0)


def test_what_does_not_run_is_not_late(tmp_path):
    crawl = start(tmp_path, CrawlState.PAUSED)
    crawled(tmp_path, 4, crawl, "example.org", "/wait")
    (look,) = looks(tmp_path, 0.0)
    assert (look.crawls[crawl].due, look.crawls[crawl].lag_s) == (0, 0.0)
    assert look.crawls[crawl].counters["queued"] == 1


def test_a_look_is_told_for_a_while_and_then_there_is_another(tmp_path):
    start(tmp_path)
    first, again, later = looks(tmp_path, 0.0, TOLD_FOR_S - 0.1, TOLD_FOR_S + 0.1)
    assert first is again
    assert later is not first


def test_of_very_many_crawls_the_last_are_told_and_the_others_counted(tmp_path):
    with closing(open_control(tmp_path)) as control:
        control.layout(4)
        numbers = [control.create_crawl(NEW, 0.0)[0].id for _ in range(MOST_CRAWLS + 3)]
    (look,) = looks(tmp_path, 0.0)
    assert sorted(look.crawls) == [0, *numbers[3:]]
    assert look.left_out == 3


def test_a_crawl_that_has_ended_is_not_told(tmp_path):
    crawl = start(tmp_path)
    with closing(open_control(tmp_path)) as control:
        control.change_state(crawl, [CrawlState.RUNNING], CrawlState.COMPLETED, 0.0)
    (look,) = looks(tmp_path, 0.0)
    assert list(look.crawls) == [0]


def test_what_is_in_memory_and_what_is_in_the_stores_is_added_up():
    members = [
        Member("a", 1, {"due 7": 3, "lag_ms 7": 2500, "due 9": 1}),
        Member("b", 1, {"due 7": 1, "lag_ms 7": 400}),
    ]
    in_store = [Due(7, 10, 900.0), Due(7, 5, 995.0), Due(8, 1, 1001.0)]
    found = crawls_of(members, {7: NOTHING, 8: NOTHING}, in_store, now=1000.0)
    assert (found[7].due, found[7].lag_s) == (19, 100.0)
    # By clocks that differ a little.
    assert (found[8].due, found[8].lag_s) == (1, 0.0)


def test_prometheus_gets_a_bounded_number_of_series(tmp_path):
    start(tmp_path)
    (look,) = looks(tmp_path, 0.0)
    text = as_text(look_figures(look)).decode()
    assert 'manyhands_crawl_urls{crawl="1",state="queued"} 0.0' in text
    assert 'manyhands_crawl_frontier_lag_seconds{crawl="1"} 0.0' in text
    assert 'fetch_jobs{state="done"} 0.0' in text
    assert len([line for line in text.splitlines() if 'crawl="1"' in line]) < 20
