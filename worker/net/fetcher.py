"""The interface of a fetcher, independent of the HTTP client: request, answer, errors. Pure.

A `HopFetcher` makes one request and follows nothing; `worker.net.following` follows redirects with
it for `fetch` jobs.
"""

import email.utils
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from manyhands.shared.crawl.arrival import Arrival
from manyhands.shared.crawl.cuts import Cut
from manyhands.shared.errors import ManyhandsError
from manyhands.shared.urls import Url
from manyhands.worker.net.byte_budget import Hold

REDIRECTS = frozenset({301, 302, 303, 307, 308})
# Request time-out, too early, too many requests; and every 5xx.
TEMPORARY_STATUSES = frozenset({408, 425, 429})
LONGEST_RETRY_AFTER_S = 86_400.0


@dataclass(slots=True)
class Phases:
    """Where the time of one request went, in seconds; what did not happen took none.

    `connect_s` has TCP and TLS, `first_byte_s` is from the request's last byte to the end of the
    answer's head, `body_s` from there to the last byte that was read.
    """

    dns_s: float = 0.0
    connect_s: float = 0.0
    first_byte_s: float = 0.0
    body_s: float = 0.0
    is_new_connection: bool = True
    address: str = ""


@dataclass(slots=True)
class Answer:
    """One answer, whatever its status. `url` was requested, `location` and `refresh` are headers as
    sent. `wire_bytes` counts the body before decompression. `request` and `head` are the bytes sent
    and those received before the body, for archives. `hold` is its share of the process's byte
    budget while the answer lives. `is_damaged`: truncated because the rest cannot be
    decompressed. `unwanted` is what is kept for archives of a body that nobody wanted;
    `is_left_out`: the server sent more than is here, or would have."""

    url: str
    status: int
    content_type: str
    location: str | None
    retry_after: str | None
    robots_tag: str
    cache_control: str
    body: bytes
    is_truncated: bool
    wire_bytes: int
    phases: Phases
    request: bytes = b""
    head: bytes = b""
    hold: Hold | None = None
    is_damaged: bool = False
    refresh: str = ""
    content_language: str = ""
    last_modified: str = ""
    etag: str = ""
    unwanted: bytes = b""
    is_left_out: bool = False

    @property
    def cut(self) -> Cut | None:
        """Why the body was cut, if it was."""
        if not self.is_truncated:
            return None
        return Cut.DAMAGE if self.is_damaged else Cut.FETCH_LIMIT

    def becomes(self, size: int) -> None:
        """The body is no longer needed, only what was made of it, which has `size` bytes."""
        self.body = b""
        if self.hold is not None:
            self.hold.resize(size)


@dataclass(slots=True, frozen=True)
class Page:
    """An answer that is final, whatever its status. Both URLs are canonical. `answers` are those of
    all hops, `hold` and `arrival` are of the last; `cut` is why the body was cut, if it was."""

    url: str
    final_url: str
    status: int
    content_type: str
    body: bytes
    cut: Cut | None
    fetched_at: datetime
    arrival: Arrival
    answers: tuple[Answer, ...] = ()
    hold: Hold | None = None


class FetchError(ManyhandsError):
    """The fetch failed. `reason` is for grouping: short, without URL, host or address."""

    def __init__(self, message: str, *, reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = message if reason is None else reason


class PermanentFetchError(FetchError):
    """Trying again cannot help: a bad redirect, a host that may not be connected to."""


class ForbiddenAddress(PermanentFetchError):
    """The host has no address to which a fetch may connect."""

    def __init__(self, message: str) -> None:
        super().__init__(message, reason="forbidden address")


class TemporaryFetchError(FetchError):
    """It may work later; `retry_after_s` is what the server asked for, if it did."""

    def __init__(
        self, message: str, retry_after_s: float | None = None, *, reason: str | None = None
    ) -> None:
        super().__init__(message, reason=reason)
        self.retry_after_s = retry_after_s


class HopFetcher(Protocol):
    async def get(
        self,
        url: Url,
        *,
        user_agent: str,
        max_bytes: int,
        check: Callable[[], None],
        wants_body: Callable[[int, str], bool],
    ) -> Answer:
        """Make one request and follow no redirect. Raises a FetchError.

        `check` is called directly before a connection is made and again directly before the
        request is sent; what it raises stops the request. `wants_body` gets the status and the
        content type; if it returns False, the body is left out of the answer. A short one is still
        read, so that the connection can be used again; else it is closed.
        `max_bytes` bounds the body before and after decompression.
        """


class Fetcher(Protocol):
    async def fetch(self, url: str) -> Page:
        """Get a page, following redirects. Raises InvalidUrl or a FetchError."""


def is_kept(status: int, _content_type: str) -> bool:
    """Of a fetch job: the body of an answer that is retried is not needed. A redirect without a
    target is a page."""
    return status < 500 and status not in TEMPORARY_STATUSES


def raise_if_temporary(status: int, retry_after: str | None, now: datetime) -> None:
    if status >= 500 or status in TEMPORARY_STATUSES:
        raise TemporaryFetchError(
            f"the server answered {status}",
            parse_retry_after(retry_after, now),
            reason=f"status {status}",
        )


def parse_retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds until the moment that a Retry-After header names, at most a day; None if it is
    missing, malformed or past."""
    if value is None:
        return None
    value = value.strip()
    if value.isascii() and value.isdecimal():
        # Python refuses to convert very many digits.
        seconds = float(value) if len(value) < 20 else LONGEST_RETRY_AFTER_S
    else:
        try:
            moment = email.utils.parsedate_to_datetime(value)
            seconds = (moment - now).total_seconds()
        except (TypeError, ValueError, OverflowError):
            # Not a date, or one without a zone.
            return None
    return min(seconds, LONGEST_RETRY_AFTER_S) if seconds > 0 else None
