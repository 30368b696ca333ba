"""Errors as RFC 9457 problem documents. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import orjson

MEDIA_TYPE = "application/problem+json"


def document(status: int, detail: str, more: Mapping[str, Any]) -> bytes:
    title = HTTPStatus(status).phrase
    return orjson.dumps(
        {"type": "about:blank", "title": title, "status": status, "detail": detail, **more}
    )


@dataclass(slots=True, frozen=True)
class Refusal:
    """The answer to what never became a request; the connection ends with it."""

    status: int
    detail: str
    retry_after_s: int | None = None

    def message(self) -> bytes:
        """The whole of it, as it is sent."""
        body = document(self.status, self.detail, {})
        headers = {
            "content-type": MEDIA_TYPE,
            "content-length": str(len(body)),
            "connection": "close",
        }
        if self.retry_after_s is not None:
            headers["retry-after"] = str(self.retry_after_s)
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode() + body


def is_no_http(why: str) -> Refusal:
    return Refusal(400, f"this is not HTTP/1.1: {why}")
