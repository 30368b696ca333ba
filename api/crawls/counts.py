"""The number of crawls in each state. Every scrape asks for it, so crawls that have ended are
counted once."""

from collections import Counter
from itertools import takewhile

from manyhands.shared.crawl.states import CrawlState
from manyhands.shared.crawl.store.protocol import ControlStore


class CrawlCounts:
    """State: of all crawls up to `_counted_to`, which have ended, how many ended how."""

    def __init__(self) -> None:
        self._counted_to = 0
        self._ended: Counter[CrawlState] = Counter()

    def count(self, control: ControlStore) -> dict[CrawlState, int]:
        newer = control.crawl_states(self._counted_to)
        ended = list(takewhile(lambda one: one[1].is_final, newer))
        if ended:
            self._counted_to = ended[-1][0]
            self._ended.update(state for _, state in ended)
        total = self._ended + Counter(state for _, state in newer[len(ended) :])
        return {state: total[state] for state in CrawlState}
