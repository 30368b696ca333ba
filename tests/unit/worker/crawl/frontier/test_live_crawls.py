"""What may be fetched where, and how often, by the rules of operators."""

import pytest

from manyhands.shared.crawl.messages import NO_CRAWL
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.model import DomainRule, StoredRobots
from manyhands.shared.settings import FetchSettings
from manyhands.worker.crawl.frontier.live_crawls import LiveCrawls
from manyhands.worker.crawl.frontier.standing_crawl import standing_crawl
from manyhands.worker.crawl.politeness.delays import Delay
from manyhands.worker.crawl.politeness.robots import RobotsRules, rules_of

SITE = "site.example"


@pytest.fixture
def crawls() -> LiveCrawls:
    return LiveCrawls(standing=standing_crawl(FetchSettings(delay_s=2.0)))


def robots(crawl_delay_s: int) -> RobotsRules:
    body = f"User-agent: *\nCrawl-delay: {crawl_delay_s}\n".encode()
    return rules_of(StoredRobots("rules", body, 0.0, 1.0))


def test_nothing_runs_before_the_rules_are_known(crawls: LiveCrawls) -> None:
    assert crawls.running.at(SITE) == ()
    crawls.obey([])
    assert crawls.running.at(SITE) == (NO_CRAWL,)


@pytest.mark.parametrize("crawl", [NO_CRAWL, None])
def test_a_pause_and_a_block_hold_and_say_for_whom(crawls: LiveCrawls, crawl: int | None) -> None:
    for rule in (
        DomainRule(crawl, SITE, is_paused=True),
        DomainRule(crawl, SITE, is_blocked=True),
    ):
        assert crawls.obey([rule]) == {SITE}
        assert crawls.running.at(SITE) == ()
        assert not crawls.may_fetch(NO_CRAWL, SITE)
        assert crawls.running.at("other.example") == (NO_CRAWL,)
    assert crawls.obey([DomainRule(7, SITE, is_paused=True)]) == {SITE}
    assert crawls.may_fetch(NO_CRAWL, SITE)
    assert crawls.obey([DomainRule(7, SITE, is_paused=True)]) == set()
    assert crawls.obey([]) == {SITE}


def test_of_a_longer_delay_only_that_part_lasts_which_is_no_rule(crawls: LiveCrawls) -> None:
    standing = crawls.by_id[NO_CRAWL]
    standing.state = CrawlState.RUNNING
    crawls.obey([])
    assert crawls.pace(SITE, standing, None) == Delay(2.0, 2.0)
    assert crawls.pace(SITE, standing, robots(5)) == Delay(5.0, 5.0)
    crawls.obey([DomainRule(None, SITE, 60.0)])
    assert crawls.pace(SITE, standing, robots(5)) == Delay(60.0, 5.0)
    assert crawls.pace_of_stored(SITE, 5.0) == Delay(60.0, 5.0)
    crawls.obey([DomainRule(None, SITE, 1.0)])
    assert crawls.pace(SITE, standing, robots(5)) == Delay(5.0, 5.0)
    assert crawls.pace(SITE, standing, None) == Delay(1.0, 1.0)
