"""A body inside a job: there and back, and nothing that explodes."""

import base64

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from manyhands.shared.settings import MAX_PARSED_BYTES
from manyhands.worker.pages.bodies import BadBody, pack, unpack


@given(st.binary(max_size=1000))
def test_a_body_comes_back_as_it_was(body):
    assert unpack(pack(body)) == body


def test_the_largest_body_comes_back():
    body = bytes(MAX_PARSED_BYTES)
    assert unpack(pack(body)) == body


def test_a_page_becomes_small():
    assert len(pack(b"<p>text</p>" * 10_000)) < 1000


@pytest.mark.parametrize("has_size", [True, False])
def test_a_bomb_is_refused(has_size):
    compressor = zstandard.ZstdCompressor(write_content_size=has_size)
    bomb = compressor.compress(bytes(MAX_PARSED_BYTES + 1))
    with pytest.raises(BadBody):
        unpack(base64.b64encode(bomb).decode())


def test_a_frame_that_wants_much_memory_is_refused():
    parameters = zstandard.ZstdCompressionParameters(window_log=27, write_content_size=False)
    compressor = zstandard.ZstdCompressor(compression_params=parameters)
    stream = compressor.compressobj()
    frame = stream.compress(b"small") + stream.flush()
    with pytest.raises(BadBody):
        unpack(base64.b64encode(frame).decode())


@pytest.mark.parametrize("text", ["", "?", "AAAA", "aGVsbG8=", "ä", "a"])
def test_what_is_no_body_is_refused(text):
    with pytest.raises(BadBody):
        unpack(text)


def test_a_body_with_something_behind_it_is_refused():
    with pytest.raises(BadBody):
        unpack(base64.b64encode(base64.b64decode(pack(b"page")) + b"more").decode())


def test_half_a_body_is_refused():
    whole = base64.b64decode(pack(bytes(range(256)) * 100))
    with pytest.raises(BadBody):
        unpack(base64.b64encode(whole[: len(whole) // 2]).decode())
