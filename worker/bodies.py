"""A page's body inside a parse job: cut, zstd, base64. Pure."""

from base64 import b64decode, b64encode

import zstandard

from shared.settings import MAX_PARSED_BYTES

LEVEL = 3
# What a frame may ask for before it has shown a byte; our own frames need no more.
MAX_WINDOW_BYTES = 8 * 1024 * 1024


class BadBody(ValueError):
    """Not what `pack` makes."""


def pack(body: bytes) -> str:
    return b64encode(zstandard.ZstdCompressor(level=LEVEL).compress(body)).decode()


def unpack(text: str) -> bytes:
    """Raises BadBody, and never makes more than MAX_PARSED_BYTES of whatever it is given."""
    try:
        packed = b64decode(text, validate=True)
        # What the frame says is allocated at once, so it is looked at first; -1 is unknown.
        if zstandard.frame_content_size(packed) > MAX_PARSED_BYTES:
            raise BadBody(f"the body has more than {MAX_PARSED_BYTES} bytes")
        return zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES).decompress(
            packed, max_output_size=MAX_PARSED_BYTES, allow_extra_data=False
        )
    except BadBody:
        raise
    except (ValueError, zstandard.ZstdError) as error:
        raise BadBody(f"the body is not base64 of zstd: {error}") from None
