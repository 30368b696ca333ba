"""When to stop waiting for a lane that still owes answers. Pure; see docs/PROTOCOL.md, Stopping.

The server goes on serving the FETCHes of a closed connection, and each would take a job to
nobody. So: send no more, let the jobs that keep arriving use up what is outstanding, then `quiet`
the lane's id, and trust only an empty answer that was surely given after the quiet.
"""

from dataclasses import dataclass

# Each FETCH that the server still has buffered when we close holds its connection for 2 s, so it
# pays to wait a little while arriving jobs answer them.
LINGER_S = 1.5
LINGER_SILENCE_S = 0.3
SURE_AFTER_S = 0.5


def should_linger(
    now: float, started_at: float, job_arrived_at: float, deepest: int, round_trip_s: float
) -> bool:
    """True while jobs still arrive fast enough to empty lanes that are more than one deep."""
    silence_s = now - max(job_arrived_at, started_at)
    return (
        deepest > 1
        and now - started_at < LINGER_S + round_trip_s
        and silence_s < LINGER_SILENCE_S + round_trip_s
    )


@dataclass(slots=True)
class LaneDrain:
    """One lane's way to silence. State: when the server confirmed `quiet` for its id."""

    quieted_at: float | None = None
    is_over: bool = False

    def answered(
        self, now: float, outstanding: int, *, was_empty: bool, round_trip_s: float
    ) -> None:
        """An empty answer ends it when it cannot have been given before the quiet: then the
        FETCHes behind it will find the gate shut."""
        if outstanding == 0:
            self.is_over = True
        elif was_empty and self.quieted_at is not None:
            self.is_over = now - self.quieted_at >= max(SURE_AFTER_S, 2 * round_trip_s)
