"""Unreachable hosts: what counts as one, when it is tried again, and when a crawl gives it up.
Pure; times are wall-clock seconds, `jitter` is a random number from 0 to 1.

A robots.txt that cannot be fetched, and a host that sends us away (429, 503), are treated the same.
"""

# Reasons of worker.net with which no connection came about, and all that begin with DNS.
_NOT_CONNECTED = frozenset(
    {
        "connection refused",
        "connection failed",
        "host unreachable",
        "time-out: connect",
        "time-out: dns",
    }
)
_DNS = "dns: "
NO_SUCH_HOST = "dns: no such host"
BACKOFF = 4
LONGEST_STEP_S = 3600.0
# Up to this much longer, so that what began together spreads out.
JITTER = 0.1
# A last attempt at the end of the patience, unless there was one this shortly before.
LAST_TRY_S = 1.0
# How often a host may send us away in a row, whatever the patience.
MOST_REFUSALS = 12


def is_of_host(reason: str) -> bool:
    """Whether a fetch failed without a connection, so that it is not the URL's fault."""
    return reason in _NOT_CONNECTED or reason.startswith(_DNS)


def next_try_at(
    failures: int, since: float, now: float, *, retry_s: float, patience_s: float, jitter: float
) -> float:
    """When to try again after `failures` in a row, the first one at `since`: four times as long
    each time, up to an hour; and once more when the patience ends."""
    step_s = min(retry_s * float(BACKOFF) ** min(failures - 1, 20), LONGEST_STEP_S)
    at, end = now + step_s * (1 + JITTER * jitter), since + patience_s
    return end if now + LAST_TRY_S < end < at else at


def gives_up(trouble: str, since: float, refusals: int, ready_at: float, patience_s: float) -> bool:
    """Whether a crawl gives up a host that is left alone until `ready_at`: the next attempt would
    come after the patience has ended."""
    if not trouble:
        return False
    is_gone = trouble.endswith(NO_SUCH_HOST)
    return is_gone or refusals >= MOST_REFUSALS or ready_at > since + patience_s
