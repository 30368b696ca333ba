"""How many crawls there are in each state. Asked for by every scrape, so those that ended are
counted once."""

from collections import Counter

from shared.crawl.states import CrawlState
from shared.state.model import Crawl
from shared.state.protocol import ControlStore

PAGE = 100


class Census:
    """State: of all crawls up to `_counted_to`, which have ended, how many ended how."""

    def __init__(self) -> None:
        self._counted_to = 0
        self._ended: Counter[CrawlState] = Counter()

    def count(self, control: ControlStore) -> dict[CrawlState, int]:
        newer = self._newer(control)
        first_live = min((crawl.id for crawl in newer if not crawl.state.is_final), default=None)
        for crawl in reversed(newer):
            if crawl.id == first_live:
                break
            self._ended[crawl.state] += 1
            self._counted_to = crawl.id
        total = self._ended + Counter(crawl.state for crawl in newer if crawl.id > self._counted_to)
        return {state: total[state] for state in CrawlState}

    def _newer(self, control: ControlStore) -> list[Crawl]:
        found: list[Crawl] = []
        after_id = 0
        while True:
            page = control.crawls(after_id, PAGE)
            fresh = [crawl for crawl in page if crawl.id > self._counted_to]
            found += fresh
            if len(fresh) < PAGE:
                return found
            after_id = fresh[-1].id
