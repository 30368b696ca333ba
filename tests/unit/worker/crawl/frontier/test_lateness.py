"""How late a process is with each crawl, by what it has in memory."""

from manyhands.shared.crawl.store.model import ClaimedUrl
from manyhands.worker.crawl.frontier.lateness import MOST_CRAWLS, lateness
from manyhands.worker.crawl.frontier.schedule import Domain, Origin, Schedule
from manyhands.worker.crawl.politeness.delays import OriginState
from manyhands.worker.crawl.shards.owned import OwnedShard

NOW = 1000.0


def url(crawl: int) -> ClaimedUrl:
    return ClaimedUrl(
        id=1, crawl=crawl, url="http://a.test/", key=b"", depth=0, redirects=0, attempts=0
    )


def add(
    schedule: Schedule, name: str, *crawls: int, due_at: float, here_since: float = 0.0
) -> None:
    domain = Domain(1, name, OwnedShard(0, 1), here_since=here_since)
    origin = Origin(1, f"http://{name}", domain, OriginState())
    origin.urls.extend(map(url, crawls))
    schedule.add(origin, due_at)


def test_nothing_is_late_when_nothing_is_due():
    schedule = Schedule()
    assert lateness(schedule, NOW) == {}
    add(schedule, "a.test", 1, due_at=NOW + 1)
    assert lateness(schedule, NOW) == {}


def test_a_domain_counts_once_for_each_crawl_and_the_one_that_waited_longest_is_told():
    schedule = Schedule()
    add(schedule, "a.test", 1, 1, 2, due_at=NOW - 5)
    add(schedule, "b.test", 1, due_at=NOW - 7)
    add(schedule, "c.test", 1, due_at=NOW + 60)
    assert lateness(schedule, NOW) == {
        "due 1": 2,
        "lag_ms 1": 7000,
        "due 2": 1,
        "lag_ms 2": 5000,
    }


def test_a_domain_has_waited_here_only_since_it_was_loaded():
    schedule = Schedule()
    add(schedule, "a.test", 1, due_at=-1e9, here_since=NOW - 3)
    assert lateness(schedule, NOW)["lag_ms 1"] == 3000


def test_of_very_many_crawls_those_with_most_are_told():
    schedule = Schedule()
    for crawl in range(MOST_CRAWLS + 5):
        add(schedule, f"{crawl}.test", crawl, due_at=NOW)
    add(schedule, "more.test", MOST_CRAWLS + 4, due_at=NOW)
    told = lateness(schedule, NOW)
    assert len(told) == 2 * MOST_CRAWLS
    assert told[f"due {MOST_CRAWLS + 4}"] == 2
