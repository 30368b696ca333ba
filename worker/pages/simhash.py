"""A text → 64 bits that differ in few places for texts that differ little (Charikar). Pure.

Every three words in a row are a feature. The bits of its hash are added up in 64 counters that are
parts of one integer, so that all are added at once.
"""

import re
from hashlib import blake2b

WORDS_OF_FEATURE = 3
# Of a longer text, its beginning: near duplicates begin alike.
MAX_FEATURES = 5000
_COUNTER_BITS = 16
_WORD = re.compile(r"\w+")
# The bits of a byte, each in a counter of its own.
_SPREAD = [
    sum((byte >> bit & 1) << (bit * _COUNTER_BITS) for bit in range(8)) for byte in range(256)
]


def simhash(text: str) -> str | None:
    """As 16 hexadecimal digits; None for a text of no words."""
    words = _WORD.findall(text.lower())[: MAX_FEATURES + WORDS_OF_FEATURE - 1]
    if not words:
        return None
    features = max(1, len(words) - WORDS_OF_FEATURE + 1)
    # One sum for each of the eight bytes of a hash.
    sums = [0] * 8
    for start in range(features):
        feature = " ".join(words[start : start + WORDS_OF_FEATURE]).encode("utf-8", "replace")
        for place, byte in enumerate(blake2b(feature, digest_size=8).digest()):
            sums[place] += _SPREAD[byte]
    return f"{_signs(sums, features):016x}"


def _signs(sums: list[int], features: int) -> int:
    """A bit is set if it is in more than half of the hashes."""
    made = 0
    mask = (1 << _COUNTER_BITS) - 1
    for place, counters in enumerate(sums):
        for bit in range(8):
            if 2 * (counters >> (bit * _COUNTER_BITS) & mask) > features:
                made |= 1 << (place * 8 + bit)
    return made
