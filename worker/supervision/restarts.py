"""When a child that ended is started again. Pure: `now` is passed in."""

from collections import deque
from dataclasses import dataclass, field

FIRST_DELAY_S = 0.25
LONGEST_DELAY_S = 5.0
# One that lived this long was well: the next end begins with the first delay.
WELL_AFTER_S = 60.0
# This many ends within this time are a crash loop: starting it again does not cure the cause.
LOOP_ENDS = 5
LOOP_WITHIN_S = 60.0


@dataclass(slots=True)
class Restarts:
    """Of one slot. State: when its child started, how many ended in a row without having been well,
    when they ended, and whether it is in a crash loop."""

    count: int = 0
    is_looping: bool = False
    _in_a_row: int = 0
    _started_at: float = 0.0
    _ends: deque[float] = field(default_factory=lambda: deque(maxlen=LOOP_ENDS))

    def started(self, now: float) -> None:
        self._started_at = now

    def is_well(self, now: float) -> bool:
        return now - self._started_at >= WELL_AFTER_S

    def ended(self, now: float) -> float:
        """How long to wait before it is started again; `is_looping` may have changed."""
        if self.is_well(now):
            self.forgive()
        self.count += 1
        self._ends.append(now)
        if len(self._ends) == LOOP_ENDS and now - self._ends[0] <= LOOP_WITHIN_S:
            self.is_looping = True
        if self.is_looping:
            return LONGEST_DELAY_S
        delay_s = min(LONGEST_DELAY_S, FIRST_DELAY_S * float(1 << min(self._in_a_row, 20)))
        self._in_a_row += 1
        return delay_s

    def forgive(self) -> None:
        """It was well, or the cause may be fixed."""
        self.is_looping = False
        self._in_a_row = 0
        self._ends.clear()
