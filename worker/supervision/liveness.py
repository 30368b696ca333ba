"""Is a child well, busy or hung? Pure: `now` and the processor time are passed in.

A child sends a message from its event loop every second (worker/service/link.py). Silence means
that the loop does not turn: a handler computes, or blocks, or everything hangs. Processor time
tells the first from the others.
"""

from dataclasses import dataclass
from enum import StrEnum

# Messages come every second; a child without a processor for a moment is not reported.
SILENT_AFTER_S = 5.0
# Until the first message: Python starts and imports the handlers.
START_TIMEOUT_S = 60.0
# After this many time-outs of silence it is given up whatever it does: nothing computes that long.
BUSY_TIMEOUTS = 5
# Of the time; a loop that hangs leaves the heartbeat's thread, which uses next to nothing.
COMPUTING_SHARE = 0.05
# Most silence counted per check: while the supervisor did not run either (stopped by a signal, a
# suspended machine), the child was not silent.
MOST_COUNTED_S = 3.0


class Liveness(StrEnum):
    WELL = "well"
    BUSY = "busy"
    HUNG = "hung"


@dataclass(slots=True)
class Watch:
    """Of one child. State: how long it has been silent, and its processor time when that began,
    which is None where the system does not report it."""

    hang_timeout_s: float
    looked_at: float
    silence_s: float = 0.0
    used_s: float = 0.0
    _has_spoken: bool = False
    _cpu_at_silence_s: float | None = 0.0

    def heard(self) -> None:
        self._has_spoken = True
        self.silence_s = 0.0
        self.used_s = 0.0
        self._cpu_at_silence_s = None

    def look(self, now: float, cpu_s: float | None) -> Liveness:
        self.silence_s += min(now - self.looked_at, MOST_COUNTED_S)
        self.looked_at = now
        if cpu_s is not None:
            if self._cpu_at_silence_s is None:
                self._cpu_at_silence_s = cpu_s
            self.used_s = cpu_s - self._cpu_at_silence_s
        return judge(self.silence_s, self.used_s if cpu_s is not None else None, self._timeout_s)

    @property
    def _timeout_s(self) -> float:
        return self.hang_timeout_s if self._has_spoken else START_TIMEOUT_S


def judge(silence_s: float, used_s: float | None, timeout_s: float) -> Liveness:
    """`used_s` is the processor time since the silence began."""
    if silence_s < min(SILENT_AFTER_S, timeout_s):
        return Liveness.WELL
    is_computing = used_s is None or used_s >= COMPUTING_SHARE * silence_s
    patience_s = timeout_s * (BUSY_TIMEOUTS if is_computing else 1)
    return Liveness.HUNG if silence_s >= patience_s else Liveness.BUSY
