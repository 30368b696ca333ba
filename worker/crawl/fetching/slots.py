"""The requests of this process by stage, and how many more may begin.

A page's request holds a slot until its answer is here, and is unsettled from then until the broker
or the store has what became of it. A robots.txt is asked for outside the slots.
"""

from manyhands.worker.crawl.frontier.schedule import Request
from manyhands.worker.net.byte_budget import ByteBudget

MOST_ROBOTS = 256
# Answers that the broker or the store does not have yet, for each slot.
UNSETTLED_PER_SLOT = 2
# How long a write may wait for others: sharing a transaction costs less.
LEAST_PATIENCE_S = 0.05
MOST_PATIENCE_S = 0.5


class Slots:
    """State: the requests, whether new ones may begin at all, and the share of the slots that
    back-pressure leaves. `page_bytes` are of pages that the process holds; while the store is away
    nothing new begins, as it could not be stored."""

    def __init__(self, slots: int, page_bytes: ByteBudget) -> None:
        self._slots = slots
        self._page_bytes = page_bytes
        self._busy: set[Request] = set()
        self._robots: set[Request] = set()
        self._unsettled: set[Request] = set()
        self.pace = 1.0
        self.are_open = True
        self.is_store_away = False

    # The way of a request

    def begin_page(self, request: Request) -> None:
        self._busy.add(request)

    def answered(self, request: Request) -> None:
        self._busy.discard(request)
        self._unsettled.add(request)

    def settled(self, request: Request) -> None:
        self._unsettled.discard(request)
        request.over()

    def begin_robots(self, request: Request) -> None:
        self._robots.add(request)

    def robots_ended(self, request: Request) -> None:
        self._robots.discard(request)
        request.over()

    # What follows from their number

    @property
    def are_under_way(self) -> bool:
        return bool(self._busy or self._robots or self._unsettled)

    @property
    def has_too_many_unsettled(self) -> bool:
        return len(self._unsettled) >= self._slots * UNSETTLED_PER_SLOT

    @property
    def has_room(self) -> bool:
        return (
            self.are_open
            and not self.is_store_away
            and not self._page_bytes.is_full
            and len(self._busy) < int(self._slots * self.pace)
            and len(self._robots) < MOST_ROBOTS
        )

    def patience_s(self) -> float:
        """How long the store may wait for others to share a transaction with: long while the slots
        are busy, short while they wait for what the answers bring, or while too many answers wait
        already."""
        slots = max(1, self._slots)
        room = 1 - len(self._unsettled) / (slots * UNSETTLED_PER_SLOT)
        busy = min(1.0, 2 * len(self._busy) / slots)
        return max(LEAST_PATIENCE_S, MOST_PATIENCE_S * min(room, busy))

    def figures(self) -> dict[str, int]:
        return {
            "slots": self._slots,
            "pace_percent": int(self.pace * 100),
            "busy": len(self._busy),
            "robots": len(self._robots),
            "unsettled": len(self._unsettled),
        }
