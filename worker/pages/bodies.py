"""A page's body inside a parse job: cut, zstd, base64. Pure."""

import pybase64
import zstandard

from manyhands.shared.settings import MAX_PARSED_BYTES

# The fastest level; the next ones save a tenth of the bytes for twice the time.
LEVEL = 1
# What a frame may ask for before it has shown a byte; our own frames need no more.
MAX_WINDOW_BYTES = 8 * 1024 * 1024


# Kept: making one takes longer than packing a page. Not for several threads; pages are packed and
# unpacked in the event loop's.
_COMPRESSOR = zstandard.ZstdCompressor(level=LEVEL)
_DECOMPRESSOR = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)


class BadBody(ValueError):
    """Not what `pack` makes."""


def pack(body: bytes) -> str:
    return pybase64.b64encode_as_string(_COMPRESSOR.compress(body))


def unpack(text: str) -> bytes:
    """Raises BadBody; never unpacks more than MAX_PARSED_BYTES."""
    try:
        packed = pybase64.b64decode(text, validate=True)
        # What the frame says is allocated at once, so it is looked at first; -1 is unknown.
        if zstandard.frame_content_size(packed) > MAX_PARSED_BYTES:
            raise BadBody(f"the body has more than {MAX_PARSED_BYTES} bytes")
        return _DECOMPRESSOR.decompress(
            packed, max_output_size=MAX_PARSED_BYTES, allow_extra_data=False
        )
    except BadBody:
        raise
    except (ValueError, zstandard.ZstdError) as error:
        raise BadBody(f"the body is not base64 of zstd: {error}") from None
