"""Two clocks. Everything that waits uses the monotonic one, which nobody sets. The wall clock is
for times that are shown, for scheduled jobs, and for times that another process reads. Pure: both
are passed in.
"""

# A clock that is slewed, or read a moment later than the other one, was not set.
STEP_S = 1.0


class Steps:
    """Notices that the wall clock was set. State: how far it was ahead of the monotonic one."""

    def __init__(self, now: float, wall: float) -> None:
        self._ahead_s = wall - now

    def look(self, now: float, wall: float) -> float:
        """Seconds by which it was set since the last step that was reported; 0 if it was not."""
        step_s = wall - now - self._ahead_s
        if abs(step_s) < STEP_S:
            return 0.0
        self._ahead_s += step_s
        return step_s
