"""Long texts as stores keep them: packed, in parts of a size that is copied in one go, under a key
that follows from the content. So what many crawls have in common is there once. Pure."""

import zlib
from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

PART_BYTES = 1024 * 1024
KEY_BYTES = 16


class PackedText(NamedTuple):
    key: bytes
    parts: tuple[bytes, ...]


def pack(text: str) -> PackedText:
    plain = text.encode()
    packed = zlib.compress(plain)
    starts = range(0, len(packed), PART_BYTES)
    return PackedText(_key(plain), tuple(packed[start : start + PART_BYTES] for start in starts))


def unpack(key: bytes, parts: Iterable[bytes]) -> str:
    """Raises ValueError when this is not what was packed."""
    try:
        plain = zlib.decompress(b"".join(parts))
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if _key(plain) != key:
        raise ValueError("its content is another one")
    return plain.decode()


def _key(plain: bytes) -> bytes:
    return blake2b(plain, digest_size=KEY_BYTES).digest()
