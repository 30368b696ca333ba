"""How late this process is with each crawl: what could be fetched now, and waits for a slot. What
the store still has is counted by those who ask it, see `protocol.ShardReader.due`. Pure."""

from collections import Counter

from manyhands.shared.crawl.store.model import DUE, LAG_MS
from manyhands.worker.crawl.frontier.schedule import Schedule

# Domains that are looked at, beginning with the one that is due for longest: a bound on the time
# that this takes of the loop's.
MOST_LOOKED_AT = 1_000
# Crawls that are told of: those with most that is due.
MOST_CRAWLS = 50


def lateness(schedule: Schedule, now: float) -> dict[str, int]:
    """By the names of a member's figures. `now` is on the loop's clock. A domain counts once for
    each crawl that has a URL next in line there."""
    due: Counter[int] = Counter()
    lag_s: dict[int, float] = {}
    for domain in schedule.due(now, MOST_LOOKED_AT):
        origin = domain.turns.first() or domain.waiting.first()
        if origin is None:
            continue
        # How long it was due before it was loaded is not known here.
        waited_s = now - max(domain.at, domain.here_since)
        for crawl in {url.crawl for url in origin.urls}:
            due[crawl] += 1
            lag_s[crawl] = max(waited_s, lag_s.get(crawl, 0.0))
    told: dict[str, int] = {}
    for crawl, domains in due.most_common(MOST_CRAWLS):
        told |= {f"{DUE}{crawl}": domains, f"{LAG_MS}{crawl}": round(lag_s[crawl] * 1000)}
    return told
