"""A crawl's progress by the counters of its shards: whether it is complete, and which limit it has
reached. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from manyhands.shared.crawl.store.model import Crawl

# Pages that may be fetched in a second.
FEW_PAGES = 1_000
# A crawl's progress is a line of the log this often.
SAID_EVERY_S = 60.0


@dataclass(slots=True, frozen=True)
class Totals:
    queued: int
    # Claimed, or fetched and not parsed.
    in_flight: int
    outgoing: int
    admitted: int
    pages: int
    done: int
    bytes: int
    # Per shard: a sum could hide that one grew and another began anew.
    changes: tuple[int, ...]

    @classmethod
    def of(cls, shards: Iterable[Mapping[str, int]]) -> "Totals":
        counters = list(shards)

        def total(name: str) -> int:
            return sum(shard.get(name, 0) for shard in counters)

        return cls(
            queued=total("queued"),
            in_flight=total("claimed") + total("parsing"),
            outgoing=total("outgoing"),
            admitted=total("admitted"),
            pages=total("pages"),
            done=total("done") + total("redirected"),
            bytes=total("bytes"),
            changes=tuple(shard.get("changes", 0) for shard in counters),
        )

    @property
    def owed(self) -> int:
        return self.queued + self.in_flight + self.outgoing


class ProgressLines:
    """When to say how far a crawl is, and what. State: when that was of each, and its pages then.
    Times are on the monotonic clock."""

    def __init__(self) -> None:
        self._said: dict[int, tuple[float, int]] = {}

    def line(self, crawl: int, totals: Totals, now: float) -> dict[str, float] | None:
        """None: not yet, or its first minute begins here."""
        said_at, pages = self._said.setdefault(crawl, (now, totals.pages))
        if now - said_at < SAID_EVERY_S:
            return None
        self._said[crawl] = now, totals.pages
        return {
            "queued": totals.queued,
            "in_flight": totals.in_flight,
            "admitted": totals.admitted,
            "pages": totals.pages,
            "pages_per_s": round((totals.pages - pages) / (now - said_at), 1),
            "bytes": totals.bytes,
        }

    def forget(self, crawl: int) -> None:
        self._said.pop(crawl, None)


def limit_reached(crawl: Crawl, totals: Totals, now: float) -> str | None:
    limits = crawl.spec.limits
    if limits.pages is not None and totals.pages >= limits.pages:
        return f"limit: {limits.pages} pages"
    if limits.bytes is not None and totals.bytes >= limits.bytes:
        return f"limit: {limits.bytes} bytes"
    if limits.duration_s is not None and now - (crawl.started_at or now) >= limits.duration_s:
        return f"limit: {limits.duration_s:g} s"
    return None


def is_near_its_end(crawl: Crawl, totals: Totals) -> bool:
    """It may end within a second: nothing is left to fetch, or few pages of its limit."""
    limit = crawl.spec.limits.pages
    return not totals.queued or (limit is not None and limit - totals.pages <= FEW_PAGES)


def why_failed(totals: Totals) -> str | None:
    """Of a crawl that has nothing left to do."""
    if not totals.admitted:
        return "no seed was admitted: none is in scope"
    if not totals.pages and not totals.done:
        return "not one page could be fetched"
    return None
