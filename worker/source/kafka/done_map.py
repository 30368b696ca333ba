"""What is done beyond a committed offset, written into the commit's metadata. Pure.

A commit says that everything before an offset is done. Thousands of slots end out of order, so much
beyond it is done as well; the map names what is not, and a restart repeats only that. Kafka keeps
4,096 bytes with each partition's commit and refuses more.

The distances between the offsets that are not done are Rice-coded: with parameter k a distance d
takes (d >> k) + 1 + k bits. For n offsets within a span that is at most n × (k + 1) + (span >> k)
bits, which grows with both n and the span. Ends only make them smaller, so whoever keeps this bound
when a record is started (`most_bits`) can always write the map afterwards, whatever ends first.
"""

import base64
import binascii
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

METADATA_BYTES = 4096
# Names the writer and the layout: a group that somebody else committed for has other metadata.
PREFIX = "mh1:"
# What base64 leaves of the bytes after the prefix, less the header: k, span and count.
HEADER_BYTES = 1 + 5 + 5
ROOM_BITS = ((METADATA_BYTES - len(PREFIX)) // 4 * 3 - HEADER_BYTES) * 8
LARGEST_K = 31
_BYTE_BITS = 8
_VARINT_BITS = 7


@dataclass(slots=True, frozen=True)
class DoneMap:
    """`span` offsets from the base are done but for those `open_` ones, counted from the base, in
    ascending order. What comes after the span is not done."""

    span: int
    open_: tuple[int, ...]


NOTHING_DONE = DoneMap(0, ())


def most_bits(count: int, span: int) -> int:
    """What so many open offsets within such a span take at most, wherever they are."""
    return _bits(count, span, _best_k(count, span))


def fits(count: int, span: int) -> bool:
    # The first is the size for a k of 0: nearly always enough, and nothing to search for.
    return count + span <= ROOM_BITS or most_bits(count, span) <= ROOM_BITS


def encode(span: int, open_: Sequence[int]) -> str:
    """The metadata; empty if nothing beyond the base is done. The caller keeps to `fits`."""
    if not span:
        return ""
    k = _best_k(len(open_), span)
    # A whole number as a row of bits, with a leading one that keeps the zeros behind it.
    pieces = ["1"]
    before = -1
    for offset in open_:
        distance = offset - before - 1
        before = offset
        pieces.append("1" * (distance >> k) + "0")
        if k:
            pieces.append(format(distance & ((1 << k) - 1), f"0{k}b"))
    bits = "".join(pieces)
    codes = int(bits, 2).to_bytes(-(-len(bits) // _BYTE_BITS), "big")
    header = bytes([k]) + _varint(span) + _varint(len(open_))
    return PREFIX + base64.b64encode(header + codes).decode()


def decode(metadata: str) -> DoneMap | None:
    """Read what `encode` wrote; None for everything else, which then counts as nothing done."""
    if not metadata.startswith(PREFIX):
        return None
    try:
        data = base64.b64decode(metadata[len(PREFIX) :], validate=True)
        k = data[0]
        span, at = _read_varint(data, 1)
        count, at = _read_varint(data, at)
        bits = bin(int.from_bytes(data[at:], "big"))[3:]
        open_ = tuple(_distances(bits, k, count))
    except (binascii.Error, IndexError, ValueError):
        return None
    if not span or k > LARGEST_K or (open_ and open_[-1] >= span):
        return None
    return DoneMap(span, open_)


def _best_k(count: int, span: int) -> int:
    """Really the best: with a guess, fewer offsets could take more bits."""
    return min(range(LARGEST_K + 1), key=lambda k: _bits(count, span, k))


def _bits(count: int, span: int, k: int) -> int:
    return count * (k + 1) + (span >> k)


def _distances(bits: str, k: int, count: int) -> Iterable[int]:
    at = 0
    offset = -1
    for _ in range(count):
        end = bits.index("0", at)
        high = end - at
        at = end + 1 + k
        low = int(bits[end + 1 : at] or "0", 2)
        offset += (high << k) + low + 1
        yield offset
    if at != len(bits):
        raise ValueError("bits that belong to nothing")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >> _VARINT_BITS:
        out.append(value & 0x7F | 0x80)
        value >>= _VARINT_BITS
    out.append(value)
    return bytes(out)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += _VARINT_BITS
        if not byte & 0x80:
            return value, at
