"""A body is decompressed as it comes, and never beyond its limit."""

import gzip
import os
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.net.encodings import BoundedBody
from worker.net.fetcher import PermanentFetchError

TEXT = b"<p>some text that compresses</p>" * 100


def raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(data) + compressor.flush()


ENCODED = [
    ("", TEXT),
    ("identity", TEXT),
    ("gzip", gzip.compress(TEXT, mtime=0)),
    ("x-gzip", gzip.compress(TEXT, mtime=0)),
    (" GZIP ", gzip.compress(TEXT, mtime=0)),
    ("deflate", zlib.compress(TEXT)),
    ("deflate", raw_deflate(TEXT)),
    ("gzip", gzip.compress(TEXT[:1000], mtime=0) + gzip.compress(TEXT[1000:], mtime=0)),
]


def feed(body: BoundedBody, data: bytes, chunk: int) -> None:
    for start in range(0, len(data), chunk):
        if not body.feed(data[start : start + chunk]):
            return


@pytest.mark.parametrize(("encoding", "data"), ENCODED)
@pytest.mark.parametrize("chunk", [1, 7, 100_000])
def test_a_body_is_decoded_however_it_is_cut(encoding, data, chunk):
    body = BoundedBody(encoding, 10_000)
    feed(body, data, chunk)
    assert body.data == TEXT
    assert not body.is_truncated


@pytest.mark.parametrize(("encoding", "data"), ENCODED)
@pytest.mark.parametrize("chunk", [1, 100_000])
@pytest.mark.parametrize("limit", [1, 999, 1000, 1001, len(TEXT) - 1])
def test_a_longer_body_is_cut_at_the_limit(encoding, data, chunk, limit):
    body = BoundedBody(encoding, limit)
    feed(body, data, chunk)
    assert body.is_truncated
    # Compressed input counts too, so a body may end a little earlier.
    assert TEXT.startswith(body.data)
    assert len(body.data) <= limit
    assert encoding or len(body.data) == limit


def test_a_body_of_exactly_the_limit_is_whole():
    body = BoundedBody("gzip", len(TEXT))
    feed(body, gzip.compress(TEXT, mtime=0), 50)
    assert (len(body.data), body.is_truncated) == (len(TEXT), False)


def test_a_bomb_is_not_set_off():
    """A megabyte that stands for a gigabyte: of each feed only so much is decompressed."""
    compressor = zlib.compressobj(9, wbits=31)
    zeros = bytes(1 << 20)
    bomb = b"".join(compressor.compress(zeros) for _ in range(1024)) + compressor.flush()
    body = BoundedBody("gzip", 50_000)
    assert not body.feed(bomb[:100_000])
    assert len(body.data) <= 50_000
    assert body.is_truncated


def test_compressed_nothing_does_not_go_on_for_ever():
    nothing = gzip.compress(b"", mtime=0)
    body = BoundedBody("gzip", 1000)
    fed = 0
    while body.feed(nothing):
        fed += len(nothing)
    assert fed <= 1000
    assert body.data == b""


@pytest.mark.parametrize("encoding", ["br", "zstd", "compress", "gzip, gzip", "gzip, br", "ü"])
def test_an_encoding_that_was_not_asked_for_is_refused(encoding):
    with pytest.raises(PermanentFetchError, match="not asked for"):
        BoundedBody(encoding, 1000)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_body_that_is_not_compressed_as_it_says_is_refused(encoding):
    body = BoundedBody(encoding, 1000)
    with pytest.raises(PermanentFetchError, match="cannot be decompressed"):
        body.feed(b"\xff\xffthis is plain text")


def test_padding_behind_a_compressed_body_is_ignored():
    body = BoundedBody("gzip", 10_000)
    assert not body.feed(gzip.compress(TEXT, mtime=0) + b"\xff\x00\xff")
    assert body.data == TEXT


def test_a_compressed_body_that_ends_early_gives_what_it_has():
    data = gzip.compress(os.urandom(5000), mtime=0)
    body = BoundedBody("gzip", 10_000)
    feed(body, data[:2500], 100)
    assert 0 < len(body.data) < 5000


@given(st.binary(max_size=300), st.integers(1, 50), st.sampled_from(["gzip", "deflate", ""]))
def test_any_bytes_stay_within_the_limit(data, chunk, encoding):
    body = BoundedBody(encoding, 100)
    try:
        feed(body, data, chunk)
    except PermanentFetchError:
        return
    assert len(body.data) <= 100
