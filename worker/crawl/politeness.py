"""When an origin may be asked again: what 429 and 503 mean, how long a robots.txt that cannot be
had is waited for, and the delay of a domain. Pure; `now` is wall-clock seconds, because blocks
outlive a restart, and `jitter` a random number from 0 to 1.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import msgspec

from worker.net.fetcher import parse_retry_after

# "Too many requests" and "service unavailable": the host wants to be left alone. 403 may mean
# anything, and a connection that fails is no word from the host.
COME_BACK_LATER = frozenset({429, 503})
FIRST_BLOCK_S = 60.0
LONGEST_BLOCK_S = 86_400.0
QUIET_S = 1800.0
# Enough doublings to reach the longest block.
MOST_INCIDENTS = 12
# Up to so much longer, so that blocks that began together do not end together.
JITTER = 0.1
ROBOTS_STEPS_S = (300.0, 3600.0, 21_600.0)
# Tries are at most 6.6 h apart while a crawl runs. After a longer pause nobody knows how long the
# robots.txt was unreachable: that is counted anew.
ROBOTS_PAUSE_S = 86_400.0

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

    def to_bytes(self) -> bytes:
        """Nothing for an origin that was never any trouble, as most are."""
        return b"" if self == OriginState() else msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> "OriginState":
        """What cannot be read counts as nothing."""
        try:
            return msgspec.json.decode(data, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return cls()

    def answered(
        self, status: int, retry_after: str | None, sent_at: float, now: float, jitter: float
    ) -> bool:
        """Take note of an answer. True means "come back later": the origin is blocked, and the URL
        is to be queued again without having spent an attempt."""
        if status not in COME_BACK_LATER:
            return False
        asked_s = parse_retry_after(retry_after, datetime.fromtimestamp(now, UTC))
        if asked_s is not None:
            self._block(asked_s, now, jitter)
            return True
        # Requests that were on their way when the block began belong to its incident.
        is_new = sent_at >= self.blocked_until
        if is_new:
            is_forgiven = now >= self.blocked_until + QUIET_S
            self.incidents = 1 if is_forgiven else min(self.incidents + 1, MOST_INCIDENTS)
        if is_new or now >= self.blocked_until:
            self._block(FIRST_BLOCK_S * 2.0 ** (max(self.incidents, 1) - 1), now, jitter)
        return True

    def robots_failed(self, now: float, jitter: float) -> float:
        """The robots.txt could not be had, or not known to be missing: until when to wait."""
        if self.robots_failures == 0 or now > self.robots_retry_at + ROBOTS_PAUSE_S:
            self.robots_failures = 0
            self.robots_failing_since = now
        step_s = ROBOTS_STEPS_S[min(self.robots_failures, len(ROBOTS_STEPS_S) - 1)]
        self.robots_failures += 1
        self.robots_retry_at = now + _jittered(step_s, jitter)
        return self.robots_retry_at

    def robots_known(self) -> None:
        """There was an answer that settles it."""
        self.robots_failures = 0
        self.robots_failing_since = 0.0
        self.robots_retry_at = 0.0

    def _block(self, block_s: float, now: float, jitter: float) -> None:
        """A block is never shortened, and none lasts longer than a day."""
        until = now + min(_jittered(block_s, jitter), LONGEST_BLOCK_S)
        self.blocked_until = max(self.blocked_until, until)


def delay_of(
    *,
    wanted_s: float,
    rule_s: float | None,
    crawl_delay_s: float | None,
    cap_s: float,
    over_cap: str,
) -> float | None:
    """Seconds from the end of an answer to the next request to the domain; None: skip the host.

    What the operator said of the domain (`rule_s`) stands for what the crawl wants; neither goes
    below the Crawl-delay of the robots.txt, as far as that is within the cap."""
    own_s = wanted_s if rule_s is None else rule_s
    if crawl_delay_s is None or crawl_delay_s <= own_s:
        return own_s
    if crawl_delay_s > cap_s and over_cap == "skip":
        return None
    return max(own_s, min(crawl_delay_s, cap_s))


def _jittered(seconds: float, jitter: float) -> float:
    return seconds * (1.0 + JITTER * jitter)
