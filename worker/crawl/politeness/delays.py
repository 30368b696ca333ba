"""When an origin may be requested again: the meaning of 429 and 503, the memory of an unreachable
origin, and the delay of a domain. Pure; `now` is wall-clock seconds, because blocks outlive a
restart, and `jitter` a random number from 0 to 1.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, NamedTuple

import msgspec

from manyhands.worker.crawl.politeness.reachability import JITTER, gives_up, next_try_at
from manyhands.worker.net.fetcher import parse_retry_after

# "Too many requests" and "service unavailable": the host asks to be left alone. 403 may mean
# anything, and a failed connection says nothing about what the host wants.
COME_BACK_LATER = frozenset({429, 503})
FIRST_BLOCK_S = 60.0
LONGEST_BLOCK_S = 86_400.0
QUIET_S = 1800.0
# Enough doublings to reach the longest block.
MOST_INCIDENTS = 12
MOST_DOUBLINGS = 17
# Attempts are at most a day apart while a crawl runs. After a longer pause nobody knows how long
# the trouble lasted: counting starts anew.
PAUSE_S = 86_400.0

Count = Annotated[int, msgspec.Meta(ge=0)]


@dataclass(slots=True)
class OriginState:
    """What is remembered of an origin. Times are 0 where there is none."""

    blocked_until: float = 0.0
    # New incidents without a Retry-After since the last 30 quiet minutes.
    incidents: Count = 0
    # The robots.txt: fetches that failed in a row, since when, and when to try again.
    robots_failures: Count = 0
    robots_failing_since: float = 0.0
    robots_retry_at: float = 0.0
    # Why it is left alone, since when, and how often in that time it was unreachable or sent us
    # away. Others read it through shared.crawl.patience.
    trouble: str = ""
    trouble_since: float = 0.0
    unreached: Count = 0
    refusals: Count = 0

    def to_bytes(self) -> bytes:
        """Nothing for an origin that was never any trouble, as most are."""
        return b"" if self == OriginState() else msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> "OriginState":
        """Unreadable notes count as none."""
        try:
            return msgspec.json.decode(data, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return cls()

    def answered(
        self, status: int, retry_after: str | None, sent_at: float, now: float, jitter: float
    ) -> bool:
        """Take note of an answer. True means "come back later": the origin is blocked."""
        if status not in COME_BACK_LATER:
            self._end_trouble()
            return False
        # Requests in flight when the block began belong to the same incident.
        is_new = sent_at >= self.blocked_until
        self._in_trouble(f"http {status}", now)
        if is_new:
            self.refusals += 1
        asked_s = parse_retry_after(retry_after, datetime.fromtimestamp(now, UTC))
        if asked_s is not None:
            # A host that sends us away again and again does not know for how long.
            self._block(max(asked_s, 2.0 ** min(self.refusals - 1, MOST_DOUBLINGS)), now, jitter)
            return True
        if is_new:
            is_forgiven = now >= self.blocked_until + QUIET_S
            self.incidents = 1 if is_forgiven else min(self.incidents + 1, MOST_INCIDENTS)
        if is_new or now >= self.blocked_until:
            self._block(FIRST_BLOCK_S * 2.0 ** (max(self.incidents, 1) - 1), now, jitter)
        return True

    def not_reached(
        self, reason: str, now: float, *, retry_s: float, patience_s: float, jitter: float
    ) -> None:
        """No connection could be made: block the origin for a while."""
        self._in_trouble(reason, now)
        self.unreached += 1
        until = next_try_at(
            self.unreached,
            self.trouble_since,
            now,
            retry_s=retry_s,
            patience_s=patience_s,
            jitter=jitter,
        )
        self.blocked_until = max(self.blocked_until, until)

    def robots_failed(
        self, now: float, *, retry_s: float, patience_s: float, jitter: float
    ) -> float:
        """The robots.txt could neither be fetched nor be known to be missing: when to try again."""
        if self.robots_failures == 0 or now > self.robots_retry_at + PAUSE_S:
            self.robots_failures = 0
            self.robots_failing_since = now
        self.robots_failures += 1
        self.robots_retry_at = next_try_at(
            self.robots_failures,
            self.robots_failing_since,
            now,
            retry_s=retry_s,
            patience_s=patience_s,
            jitter=jitter,
        )
        return self.robots_retry_at

    def robots_missing(self, reason: str) -> None:
        """It could not be fetched, and there is no copy: fetch nothing."""
        self.trouble = f"robots.txt: {reason}"
        self.trouble_since = self.trouble_since or self.robots_failing_since

    def robots_known(self) -> None:
        """There was an answer that settles it."""
        self.robots_failures = 0
        self.robots_failing_since = 0.0
        self.robots_retry_at = 0.0
        if not self.refusals:
            self._end_trouble()

    def gives_up(self, ready_at: float, patience_s: float) -> bool:
        """See `reachability.gives_up`."""
        return gives_up(self.trouble, self.trouble_since, self.refusals, ready_at, patience_s)

    def _in_trouble(self, reason: str, now: float) -> None:
        if not self.trouble or now > self.blocked_until + PAUSE_S:
            self._end_trouble()
            self.trouble_since = now
        self.trouble = reason

    def _end_trouble(self) -> None:
        if self.trouble:
            self.trouble = ""
            self.trouble_since = 0.0
            self.unreached = self.refusals = 0

    def _block(self, block_s: float, now: float, jitter: float) -> None:
        """A block is never shortened, and none lasts longer than a day."""
        until = now + min(_jittered(block_s, jitter), LONGEST_BLOCK_S)
        self.blocked_until = max(self.blocked_until, until)


class Delay(NamedTuple):
    """Between the end of an answer and the next request to the domain, and as much of it as does
    not end with an operator's rule."""

    seconds: float
    lasting_s: float


def delay_of(
    *,
    wanted_s: float,
    rule_s: float | None,
    crawl_delay_s: float | None,
    cap_s: float,
    over_cap: str,
) -> float | None:
    """Seconds from the end of an answer to the next request to the domain; None: skip the host.

    The operator's rule for the domain (`rule_s`) replaces the crawl's own delay; neither goes below
    the Crawl-delay of the robots.txt, as far as that is within the cap."""
    own_s = wanted_s if rule_s is None else rule_s
    if crawl_delay_s is None or crawl_delay_s <= own_s:
        return own_s
    if crawl_delay_s > cap_s and over_cap == "skip":
        return None
    return max(own_s, min(crawl_delay_s, cap_s))


def _jittered(seconds: float, jitter: float) -> float:
    return seconds * (1.0 + JITTER * jitter)
