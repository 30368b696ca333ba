"""From right messages to damaged ones: strategies of Hypothesis that all targets draw from."""

import re
from collections.abc import Sequence
from itertools import pairwise

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

Pieces = list[bytes]

# Places are drawn as shares of the length of what they are in.
SHARES = 10_000
PLACES = st.integers(0, SHARES)
# Repetition is what squares show themselves by: up to as often as an input has room for.
REPEATS = st.sampled_from([2, 3, 10, 100, 1000, 10_000, 1_000_000])
NUMBERS = (
    *(b"0", b"00", b"-1", b"+1", b"1", b"01", b"0x10", b"255", b"65536", b"2147483648"),
    *(b"4294967296", b"9223372036854775807", b"9223372036854775808", b"18446744073709551616"),
    *(b"1e9", b"1e400", b"1_000", b"NaN", b"\xd9\xa3", b"9" * 40, b"9" * 5000, b"f" * 17),
)
TEXTS = (
    *(b"", b" ", b"\t", b"\r", b"\n", b"\r\n", b"\r\n\r\n", b"\n\n", b"\r\n ", b"\0", b"\x7f"),
    *(b"\xff", b"\xc3", b"\xc3\xa9", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xff\xfe", b"\x1b[31m"),
    *(b":", b";", b",", b"=", b'"', b"'", b"\\", b"/", b"%", b"%00", b"*", b"<", b">", b"&"),
    *(b"[", b"]", b"{", b"}", b"null", b"true", b'""', b"[]", b"{}", b'"\\ud800"', b"\\u0000"),
)
_NUMBER = re.compile(rb"\d+")


@st.composite
def damaged(
    draw: DrawFn,
    messages: Sequence[bytes],
    words: Sequence[bytes],
    *,
    most_messages: int = 3,
    most_damages: int = 5,
    max_bytes: int = 64 * 1024,
) -> bytes:
    """Some of the messages behind one another, with some damages; `words` are of their language."""
    found = b"".join(draw(st.lists(st.sampled_from(messages), max_size=most_messages, min_size=1)))
    some = st.sampled_from([*words, *TEXTS])
    for _ in range(draw(st.integers(0, most_damages))):
        found = draw(st.sampled_from(DAMAGES))(draw, found, some, max_bytes)
    return found[:max_bytes]


def _insert(draw: DrawFn, data: bytes, some: SearchStrategy[bytes], max_bytes: int) -> bytes:
    del max_bytes
    at = _place(draw, data)
    return data[:at] + draw(some) + data[at:]


def _replace(draw: DrawFn, data: bytes, some: SearchStrategy[bytes], max_bytes: int) -> bytes:
    del max_bytes
    start, end = _range(draw, data)
    return data[:start] + draw(some) + data[end:]


def _repeat(draw: DrawFn, data: bytes, some: SearchStrategy[bytes], max_bytes: int) -> bytes:
    """Of a part, or of a word and a part, as often as there is room for."""
    start, end = _range(draw, data)
    part = draw(some) + data[start:end]
    if not part:
        return data
    often = min(draw(REPEATS), max(1, (max_bytes - len(data)) // len(part)))
    return data[:start] + part * often + data[end:]


def _flip(draw: DrawFn, data: bytes, some: SearchStrategy[bytes], max_bytes: int) -> bytes:
    del some, max_bytes
    at = _place(draw, data)
    return data[:at] + bytes([draw(st.integers(0, 255))]) + data[at + 1 :]


def _cut(draw: DrawFn, data: bytes, some: SearchStrategy[bytes], max_bytes: int) -> bytes:
    del some, max_bytes
    return data[: _place(draw, data)]


def _number(draw: DrawFn, data: bytes, some: SearchStrategy[bytes], max_bytes: int) -> bytes:
    """Another in place of the first one from some place on."""
    del some, max_bytes
    number = _NUMBER.search(data, _place(draw, data))
    if number is None:
        return data
    return data[: number.start()] + draw(st.sampled_from(NUMBERS)) + data[number.end() :]


def _line_ends(draw: DrawFn, data: bytes, some: SearchStrategy[bytes], max_bytes: int) -> bytes:
    del some, max_bytes
    return data.replace(b"\r\n", draw(st.sampled_from([b"\n", b"\r", b"\r\r\n", b"\n\r"])))


DAMAGES = (_insert, _insert, _replace, _repeat, _repeat, _flip, _cut, _number, _number, _line_ends)


@st.composite
def in_pieces(draw: DrawFn, data: SearchStrategy[bytes], most: int = 4) -> Pieces:
    """As it may come from a network: all at once, or in pieces of any length."""
    whole = draw(data)
    places = sorted(_place(draw, whole) for _ in range(draw(st.integers(0, most - 1))))
    bounds = [0, *places, len(whole)]
    pieces = [whole[start:end] for start, end in pairwise(bounds)]
    return [piece for piece in pieces if piece] or [b""]


def _place(draw: DrawFn, data: bytes) -> int:
    return draw(PLACES) * len(data) // SHARES


def _range(draw: DrawFn, data: bytes) -> tuple[int, int]:
    """Rather short: most of a message is to stay what it was."""
    start = _place(draw, data)
    return start, min(len(data), start + draw(st.integers(0, 40)))
