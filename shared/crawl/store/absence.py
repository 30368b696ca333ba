"""Whether a place that keeps state can be reached, and since when it cannot. Pure: times are passed
in, all of one monotonic clock."""

from collections.abc import Iterable
from math import inf

# While an answer stays out, others that come do not count; told of it that often, s.
SILENCE_LASTS_S = 0.5


class Absence:
    """State: since when the place is away (None: it is there), why, when it was last tried in vain,
    when an answer last stayed out, and when it came back last. Several threads tell it what they
    see.

    `is_waited_for`: whoever owns shards waits for its end, however long that takes; others get an
    error after a while."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.since: float | None = None
        self.why = ""
        self.ended_at = -inf
        self.is_waited_for = False
        self._tried_at = -inf
        self._silent_at = -inf

    def failed(self, why: str, now: float) -> None:
        self._tried_at = now
        if self.since is None:
            self.why = why
            self.since = now

    def is_silent(self, why: str, now: float) -> None:
        """Tell it again and again until there is an answer. It may answer others meanwhile: a
        primary that waits for its standby commits nothing, and can be read."""
        self._silent_at = now
        self.failed(why, now)

    def worked(self, now: float) -> None:
        if self.since is not None and now - self._silent_at >= SILENCE_LASTS_S:
            self.since = None
            self.ended_at = now

    def lasts_s(self, now: float) -> float:
        """0: it is there."""
        since = self.since
        return 0.0 if since is None else max(0.0, now - since)

    def was_tried_within(self, seconds: float, now: float) -> bool:
        return now - self._tried_at < seconds


def were_here_for(absences: Iterable[Absence], seconds: float, now: float) -> bool:
    """All of the places, all that time: whoever is alive had the time to say so."""
    return all(one.since is None and now - one.ended_at >= seconds for one in absences)
