"""What fetches a page, whatever the HTTP client is: one method, its result, and its errors."""

import email.utils
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from shared.errors import ManyhandsError

REDIRECTS = frozenset({301, 302, 303, 307, 308})
# Request time-out, too early, too many requests; and every 5xx.
TEMPORARY_STATUSES = frozenset({408, 425, 429})
LONGEST_RETRY_AFTER_S = 86_400.0


@dataclass(slots=True, frozen=True)
class Page:
    """An answer that is final, whatever its status. Both URLs are canonical."""

    url: str
    final_url: str
    status: int
    content_type: str
    body: bytes
    is_truncated: bool
    fetched_at: datetime


class FetchError(ManyhandsError):
    """No page."""


class PermanentFetchError(FetchError):
    """Trying again cannot help: a bad redirect, a host that may not be connected to."""


class ForbiddenAddress(PermanentFetchError):
    """The host has no address to which a fetch may connect."""


class TemporaryFetchError(FetchError):
    """It may work later; `retry_after_s` is what the server asked for, if it did."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Fetcher(Protocol):
    async def fetch(self, url: str) -> Page:
        """Get a page, following redirects. Raises InvalidUrl or a FetchError."""


def raise_if_temporary(status: int, retry_after: str | None, now: datetime) -> None:
    if status >= 500 or status in TEMPORARY_STATUSES:
        raise TemporaryFetchError(
            f"the server answered {status}", parse_retry_after(retry_after, now)
        )


def parse_retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds until the moment that a Retry-After header names, a day at most; None for what is
    missing, malformed or past."""
    if value is None:
        return None
    value = value.strip()
    if value.isascii() and value.isdecimal():
        # So many digits may not even be a number to Python.
        seconds = float(value) if len(value) < 20 else LONGEST_RETRY_AFTER_S
    else:
        try:
            moment = email.utils.parsedate_to_datetime(value)
            seconds = (moment - now).total_seconds()
        except (TypeError, ValueError, OverflowError):
            # No date, or one without a zone.
            return None
    return min(seconds, LONGEST_RETRY_AFTER_S) if seconds > 0 else None
