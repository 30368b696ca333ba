"""Checks a record's bytes against its digest. Pure.

The block's digest is preferred: it covers exactly the bytes that are stored. Tools disagree on the
payload: with or without the chunks of HTTP.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Digest(StrEnum):
    """The result of the check. NONE: the record has no digest, or one of an unknown kind."""

    OK = "ok"
    BAD = "bad"
    NONE = "none"


@dataclass(slots=True, frozen=True)
class Expected:
    """`is_of_block`: of HTTP head and body together, otherwise of the body alone."""

    algorithm: str
    value: bytes
    is_of_block: bool


_SIZES = {"md5": 16, "sha1": 20, "sha256": 32, "sha512": 64}
# From the letters of RFC 4648 to those of Python's numbers to the base of 32: a twentieth of the
# time that the standard library takes.
_BASE32 = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", "0123456789ABCDEFGHIJKLMNOPQRSTUV", "=")
_BASE32_TEXT = re.compile("[A-Z2-7]+")


def expected_digest(block_digest: str | None, payload_digest: str | None) -> Expected | None:
    for text, is_of_block in ((block_digest, True), (payload_digest, False)):
        parsed = _parsed(text) if text else None
        if parsed is not None:
            return Expected(*parsed, is_of_block)
    return None


def _parsed(text: str) -> tuple[str, bytes] | None:
    """`sha1:` and base32, as most have it, or hexadecimal."""
    name, _, value = text.partition(":")
    algorithm = name.strip().lower().replace("-", "")
    value = value.strip().rstrip("=")
    size = _SIZES.get(algorithm)
    if size is None:
        return None
    try:
        if len(value) == 2 * size:
            return algorithm, bytes.fromhex(value)
        return algorithm, _from_base32(value.upper(), size)
    except ValueError:
        return None


def _from_base32(text: str, size: int) -> bytes:
    """Raises ValueError."""
    digits = text.translate(_BASE32)
    unused_bits = 5 * len(digits) - 8 * size
    if not 0 <= unused_bits < 5 or not _BASE32_TEXT.fullmatch(text):
        raise ValueError("no digest of this size")
    return (int(digits, 32) >> unused_bits).to_bytes(size, "big")


class Hashing:
    """Of a body that comes in pieces. State: the hash."""

    __slots__ = ("_expected", "_hash")

    def __init__(self, expected: Expected, head: bytes) -> None:
        self._expected = expected
        self._hash = hashlib.new(expected.algorithm, usedforsecurity=False)
        if expected.is_of_block:
            self._hash.update(head)

    def feed(self, body: bytes) -> None:
        self._hash.update(body)

    def state(self) -> Digest:
        return Digest.OK if self._hash.digest() == self._expected.value else Digest.BAD


def look_at(
    expected: Expected, head: bytes, body: bytes, unchunked: Callable[[bytes], bytes]
) -> Digest:
    """`unchunked` takes the chunks of HTTP off a body, or leaves it as it is."""
    state = _state(expected, head, body)
    if state is Digest.OK or expected.is_of_block:
        return state
    without_chunks = unchunked(body)
    return state if len(without_chunks) == len(body) else _state(expected, head, without_chunks)


def _state(expected: Expected, head: bytes, body: bytes) -> Digest:
    hashing = Hashing(expected, head)
    hashing.feed(body)
    return hashing.state()
