"""Two clocks: what waits runs on the monotonic one, which nobody sets; the wall clock says what
time to show, when scheduled jobs are due, and what is kept for another process to read. Pure: both
are passed in.
"""

# A clock that is slewed, or read a moment later than the other one, was not set.
STEP_S = 1.0


class Steps:
    """Notices that the wall clock was set. State: how far it was ahead of the monotonic one."""

    def __init__(self, now: float, wall: float) -> None:
        self._ahead_s = wall - now

    def look(self, now: float, wall: float) -> float:
        """By how many seconds it was set since the last step that was told; 0 if it was not."""
        step_s = wall - now - self._ahead_s
        if abs(step_s) < STEP_S:
            return 0.0
        self._ahead_s += step_s
        return step_s
