"""Watches whether the places that keep the shards are away: says so, and has everybody wait who
would only make more to store.

What is under way stays in memory: the store's threads repeat a change until it is stored, and the
lease of a shard that nobody else has taken is renewed when the store is back.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence

from manyhands.shared.crawl.store.absence import Absence
from manyhands.shared.logs import get_logger
from manyhands.worker.crawl.announcement import Announcement
from manyhands.worker.crawl.shards.owned import OwnedShard

LOOK_S = 0.2
# A place that is back sooner is not worth a line.
SAY_AFTER_S = 1.0


class StoreWatch:
    """State: since when the places that were reported are away. `changed` is announced when a place
    goes or comes; `shards` are the open ones."""

    def __init__(
        self, absences: Sequence[Absence], shards: Mapping[int, OwnedShard], member: str
    ) -> None:
        self._absences = absences
        self._shards = shards
        self._log = get_logger("crawl").bind(member=member)
        self._seen: set[int] = set()
        self._said_since: dict[int, float] = {}
        self.changed: Announcement[[]] = Announcement()

    @property
    def is_all_away(self) -> bool:
        """Nothing can go on: without the control store no lease can be renewed."""
        return self._absences[0].since is not None

    @property
    def shards_away(self) -> int:
        return sum(shard.is_away for shard in self._shards.values())

    def away_s(self, now: float) -> float:
        """How long the place has been away that is away for longest. 0: all are there."""
        return max(one.lasts_s(now) for one in self._absences)

    def waits_for(self, now: float) -> str:
        """For people; empty: for none of them."""
        return "; ".join(
            f"the crawls' state in {one.place}, away for {one.lasts_s(now):.0f} s: {one.why}"
            for one in self._absences
            if one.lasts_s(now) >= SAY_AFTER_S
        )

    async def run(self) -> None:
        while True:
            self.look(time.monotonic())
            await asyncio.sleep(LOOK_S)

    def look(self, now: float) -> None:
        away = {part for part, one in enumerate(self._absences) if one.since is not None}
        for number, shard in self._shards.items():
            shard.is_away = self.is_all_away or number % len(self._absences) in away
        for part, one in enumerate(self._absences):
            self._say(part, one, now)
        if away != self._seen:
            self._seen = away
            self.changed()

    def _say(self, part: int, one: Absence, now: float) -> None:
        since = one.since
        if since is None:
            if part in self._said_since:
                away_s = round(one.ended_at - self._said_since.pop(part), 1)
                self._log.warning(
                    "the crawls' state is back: crawls go on", place=one.place, away_s=away_s
                )
        elif part not in self._said_since and now - since >= SAY_AFTER_S:
            self._said_since[part] = since
            self._log.warning(
                "the crawls' state is away: crawls wait for it", place=one.place, reason=one.why
            )
