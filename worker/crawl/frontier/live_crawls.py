"""The crawls that have not ended, as this process last saw them. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from manyhands.shared.crawl.page_fields import chosen
from manyhands.shared.crawl.scope import Scope
from manyhands.shared.crawl.spec import CrawlSpec
from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.model import ClaimedUrl, Crawl, DomainRule
from manyhands.worker.crawl.frontier.allowance import Allowance
from manyhands.worker.crawl.frontier.running import Held, Running, is_held
from manyhands.worker.crawl.politeness.delays import Delay, delay_of
from manyhands.worker.crawl.politeness.robots import RobotsRules


@dataclass(slots=True)
class LiveCrawl:
    """State: what it may fetch here without asking (None: any number of pages), and the hosts or
    domains of its seeds (None: too many to keep, ask the store)."""

    id: int
    spec: CrawlSpec
    state: CrawlState
    scope: Scope
    user_agent: str
    # How long to keep trying a host that is unreachable or asks to be left alone.
    patience_s: float = inf
    allowance: Allowance | None = None
    seed_names: frozenset[str] | None = None

    @property
    def chosen(self) -> frozenset[str]:
        """What the records of its pages hold."""
        return chosen(self.spec.records.fields)

    @property
    def is_running(self) -> bool:
        return self.state is CrawlState.RUNNING


@dataclass(slots=True)
class LiveCrawls:
    """State: the crawls by id, and the operators' rules for domains (None: not read yet, so that
    nothing runs). `standing` never ends: the URLs that are of no crawl, see `standing_crawl`."""

    by_id: dict[int, LiveCrawl] = field(default_factory=dict)
    standing: LiveCrawl | None = None
    _rules: dict[tuple[int | None, str], DomainRule] | None = None
    _held: Held = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.standing is not None:
            self.by_id[self.standing.id] = self.standing

    @property
    def running(self) -> Running:
        if self._rules is None:
            return Running()
        crawls = tuple(crawl.id for crawl in self.by_id.values() if crawl.is_running)
        return Running(crawls, self._held)

    @property
    def patiences(self) -> dict[int, float]:
        """Of those that run."""
        return {crawl.id: crawl.patience_s for crawl in self.by_id.values() if crawl.is_running}

    @property
    def held_pages(self) -> int:
        """Of crawls with a limit: see `Allowance.held`."""
        allowances = [crawl.allowance for crawl in self.by_id.values()]
        return sum(allowance.held for allowance in allowances if allowance is not None)

    def first_of(self, urls: Iterable[ClaimedUrl]) -> LiveCrawl | None:
        """The crawl of the first URL whose crawl has not ended."""
        for url in urls:
            if (crawl := self.by_id.get(url.crawl)) is not None:
                return crawl
        return None

    def forget_allowances(self) -> None:
        for crawl in self.by_id.values():
            if crawl.allowance is not None:
                crawl.allowance.forget()

    def update(self, crawls: Iterable[Crawl], made: Mapping[int, LiveCrawl]) -> set[int]:
        """Take over the states; `made` has the crawls that are new here. Returns those that ran and
        no longer do."""
        before = {crawl.id for crawl in self.by_id.values() if crawl.is_running}
        seen = {} if self.standing is None else {self.standing.id: self.standing}
        for crawl in crawls:
            live = self.by_id.get(crawl.id) or made.get(crawl.id)
            if live is not None:
                live.state = crawl.state
                seen[crawl.id] = live
        self.by_id = seen
        return before - {crawl.id for crawl in seen.values() if crawl.is_running}

    def obey(self, rules: Iterable[DomainRule]) -> set[str]:
        """Returns the domains for which something has changed."""
        before = set((self._rules or {}).values())
        self._rules = {(rule.crawl, rule.domain): rule for rule in rules}
        held: defaultdict[str, set[int | None]] = defaultdict(set)
        for rule in self._rules.values():
            if rule.holds:
                held[rule.domain].add(rule.crawl)
        self._held = dict(held)
        return {rule.domain for rule in before.symmetric_difference(self._rules.values())}

    def may_fetch(self, crawl: int, domain: str) -> bool:
        live = self.by_id.get(crawl)
        return live is not None and live.is_running and not is_held(self._held, crawl, domain)

    def pace(self, domain: str, crawl: LiveCrawl, rules: RobotsRules | None) -> Delay:
        """The delay after a request of that crawl; `rules` is None where no robots.txt is known."""
        asked_s = None if rules is None else rules.crawl_delay_s
        own_s = _delay_s(crawl, None, asked_s)
        rule_s = self._rule_delay_s(crawl.id, domain)
        ruled_s = own_s if rule_s is None else _delay_s(crawl, rule_s, asked_s)
        if ruled_s is None or own_s is None:
            own_s = ruled_s = crawl.spec.politeness.delay_s
        return Delay(ruled_s, min(own_s, ruled_s))

    def pace_of_stored(self, domain: str, delay_s: float) -> Delay:
        """Of a domain of which no request has ended here: its delay is that of the store."""
        longest_s = max(
            (self._rule_delay_s(crawl, domain) or 0.0 for crawl in self.by_id), default=0.0
        )
        return Delay(max(delay_s, longest_s), delay_s)

    def delay_s(self, domain: str, crawl: LiveCrawl, rules: RobotsRules) -> float | None:
        """The delay between two requests to the domain; None: its robots.txt asks for a longer one
        than the crawl accepts."""
        return _delay_s(crawl, self._rule_delay_s(crawl.id, domain), rules.crawl_delay_s)

    def _rule_delay_s(self, crawl: int, domain: str) -> float | None:
        for rule in self._rules_of(crawl, domain):
            if rule.delay_s is not None:
                return rule.delay_s
        return None

    def _rules_of(self, crawl: int, domain: str) -> Sequence[DomainRule]:
        """The crawl's own rule for the domain, then the one for all crawls."""
        if not self._rules:
            return ()  # the usual case, and this runs three times a page
        found = (self._rules.get((crawl, domain)), self._rules.get((None, domain)))
        return [rule for rule in found if rule is not None]


def _delay_s(crawl: LiveCrawl, rule_s: float | None, crawl_delay_s: float | None) -> float | None:
    politeness = crawl.spec.politeness
    return delay_of(
        wanted_s=politeness.delay_s,
        rule_s=rule_s,
        crawl_delay_s=crawl_delay_s,
        cap_s=politeness.crawl_delay_cap_s,
        over_cap=politeness.over_cap,
    )
