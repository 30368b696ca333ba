"""Fetch jobs as a crawl: it has no row in the store, follows no link and never ends. Its politeness
is that of the settings, and the rules that operators set for all crawls are its own, too."""

from manyhands.shared.crawl.exclusions import Exclusions
from manyhands.shared.crawl.messages import NO_CRAWL
from manyhands.shared.crawl.scope import Scope
from manyhands.shared.crawl.spec import CrawlSpec, LimitSpec, PolitenessSpec, ScopeSpec
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.settings import FetchSettings
from manyhands.worker.crawl.frontier.live_crawls import LiveCrawl

# A host that cannot be reached is tried for about as long as a job of the default `retry`.
PATIENCE_S = 7200.0


def standing_crawl(fetch: FetchSettings) -> LiveCrawl:
    # Not checked: unlike a crawl, fetch jobs may have no contact.
    spec = CrawlSpec.model_construct(
        contact=fetch.contact,
        scope=ScopeSpec(within="seeds"),
        limits=LimitSpec(),
        politeness=PolitenessSpec(delay_s=fetch.delay_s, patience_s=PATIENCE_S),
    )
    scope = Scope(spec.scope, Exclusions())
    return LiveCrawl(NO_CRAWL, spec, CrawlState.RUNNING, scope, fetch.agent, PATIENCE_S)
