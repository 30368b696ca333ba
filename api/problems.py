"""Errors as RFC 9457 problem documents: one shape for every answer that is not a success. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from manyhands.shared.http.problems import MEDIA_TYPE, document


@dataclass(slots=True, eq=False)
class Problem(Exception):
    """An answer that is not a success. `more` are further members: field, line, errors … After one
    that `closes`, the connection is closed."""

    status: int
    detail: str
    more: dict[str, Any] = field(default_factory=dict)
    retry_after_s: int | None = None
    closes: bool = False

    @property
    def headers(self) -> Mapping[str, str]:
        headers = {"content-type": MEDIA_TYPE}
        if self.retry_after_s is not None:
            headers["retry-after"] = str(self.retry_after_s)
        if self.status == HTTPStatus.UNAUTHORIZED:
            headers["www-authenticate"] = 'Bearer realm="manyhands"'
        if self.closes:
            headers["connection"] = "close"
        return headers

    def body(self) -> bytes:
        return document(self.status, self.detail, self.more)


def bad_request(detail: str, **more: Any) -> Problem:
    return Problem(400, detail, more)


def unprocessable(detail: str, **more: Any) -> Problem:
    return Problem(422, detail, more)


def too_large(what: str, limit: int) -> Problem:
    return Problem(413, f"{what} is larger than {limit} bytes", {"limit": limit})


def too_slow(detail: str) -> Problem:
    # Else the rest of its body would go on trickling in.
    return Problem(408, detail, closes=True)


def too_busy(detail: str, *, retry_after_s: int = 1) -> Problem:
    return Problem(429, detail, {}, retry_after_s)


def unavailable(detail: str, *, retry_after_s: int, **more: Any) -> Problem:
    return Problem(503, detail, more, retry_after_s)


def mistake() -> Problem:
    return Problem(500, "unhandled exception: the log of the service has more")


def shutting_down() -> Problem:
    return Problem(503, "the service is shutting down", {}, 5, closes=True)


def outcome_unknown(detail: str, **more: Any) -> Problem:
    """The broker went away between our PUSHB and its answer: the job may be queued or not."""
    return Problem(503, detail, {"outcome": "unknown"} | more, 5)
