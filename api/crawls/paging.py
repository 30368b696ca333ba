"""Cursors: where a listing continues, as text that is opaque to the client. Pure."""

import re
from base64 import b64decode, urlsafe_b64encode

from manyhands.api.problems import Problem, unprocessable

MAX_CURSOR_LENGTH = 200
# Of SQLite.
MAX_ID = 2**63 - 1
_NUMBERS = re.compile(rb"[0-9]{1,19}(?:\.[0-9]{1,19})*")


def cursor(*numbers: int) -> str:
    return opaque(".".join(map(str, numbers)).encode())


def opaque(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def from_opaque(text: str) -> bytes:
    """Raises Problem."""
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        return b64decode(padded, altchars=b"-_", validate=True)
    except ValueError:
        raise not_a_cursor() from None


def read_cursor(text: str, count: int) -> tuple[int, ...]:
    """The cursor's numbers. Raises Problem unless there are `count` of them."""
    decoded = from_opaque(text)
    if not _NUMBERS.fullmatch(decoded):
        raise not_a_cursor()
    numbers = tuple(map(int, decoded.split(b".")))
    if len(numbers) != count or max(numbers) > MAX_ID:
        raise not_a_cursor()
    return numbers


def not_a_cursor(why: str = "it does not come from this listing") -> Problem:
    return unprocessable(f"the cursor is of no use: {why}; leave it out to begin", field="cursor")
