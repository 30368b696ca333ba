"""How many users a burst has at a moment. Pure; locustfiles/burst.py asks it."""

PERIOD_S = 10.0
# Of every period; the rest is quiet.
BURST_S = 3.0
QUIET_SHARE = 0.1


def users_at(second: float, run_s: float, peak: int) -> int | None:
    """The number of users; None when the run is over. A run begins quiet and has a burst at the
    end of each period."""
    if second >= run_s:
        return None
    # A run that is shorter than a period has its burst all the same.
    period_s = min(PERIOD_S, run_s)
    quiet_s = period_s * (1 - BURST_S / PERIOD_S)
    is_quiet = second % period_s < quiet_s
    return max(1, round(peak * QUIET_SHARE)) if is_quiet else peak
