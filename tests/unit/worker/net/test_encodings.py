"""A body is decompressed as it comes, and never beyond its limit."""

import contextlib
import gzip
import os
import tracemalloc
import weakref
import zlib

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from manyhands.worker.net.encodings import MAX_GZIP_MEMBERS, BoundedBody
from manyhands.worker.net.fetcher import PermanentFetchError

ENCODINGS = ["gzip", "deflate", "br", "zstd", ""]
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
    ("br", brotli.compress(TEXT)),
    ("zstd", zstandard.compress(TEXT)),
    ("zstd", zstandard.compress(TEXT[:1000]) + zstandard.compress(TEXT[1000:])),
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


def bomb_of_zlib(wbits: int) -> bytes:
    compressor = zlib.compressobj(1, wbits=wbits)
    zeros = bytes(1 << 20)
    return b"".join(compressor.compress(zeros) for _ in range(64)) + compressor.flush()


def bomb_of_brotli() -> bytes:
    compressor = brotli.Compressor(quality=1)
    zeros = bytes(1 << 20)
    return b"".join([*(compressor.process(zeros) for _ in range(64)), compressor.finish()])


def bomb_of_zstd() -> bytes:
    compressor = zstandard.ZstdCompressor().compressobj()
    zeros = bytes(1 << 20)
    return b"".join(compressor.compress(zeros) for _ in range(64)) + compressor.flush()


@pytest.mark.parametrize(
    ("encoding", "make"),
    [
        ("gzip", lambda: bomb_of_zlib(31)),
        ("deflate", lambda: bomb_of_zlib(15)),
        ("deflate", lambda: bomb_of_zlib(-15)),
        ("br", bomb_of_brotli),
        ("zstd", bomb_of_zstd),
    ],
    ids=["gzip", "deflate", "raw deflate", "br", "zstd"],
)
def test_a_bomb_is_not_set_off(encoding, make):
    """Kilobytes that stand for 64 MB: of each feed only so much is decompressed."""
    bomb = make()
    body = BoundedBody(encoding, 300_000)
    tracemalloc.start()
    try:
        assert not body.feed(bomb[:300_000])
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (len(body.data), body.is_truncated) == (300_000, True)
    assert most_bytes < 5_000_000


def test_a_window_that_no_page_needs_is_refused():
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    body = BoundedBody("zstd", 10_000)
    with pytest.raises(PermanentFetchError, match="memory"):
        body.feed(compressor.compress(TEXT) + compressor.flush())


def test_compressed_nothing_does_not_go_on_for_ever():
    nothing = gzip.compress(b"", mtime=0)
    body = BoundedBody("gzip", 1000)
    fed = 0
    while body.feed(nothing):
        fed += len(nothing)
    assert fed <= 1000
    assert body.data == b""


@pytest.mark.parametrize("encoding", ["compress", "gzip, gzip", "gzip, br", "ü"])
def test_an_encoding_that_was_not_asked_for_is_refused(encoding):
    with pytest.raises(PermanentFetchError, match="not asked for"):
        BoundedBody(encoding, 1000)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_a_body_that_is_not_compressed_as_it_says_is_refused(encoding):
    body = BoundedBody(encoding, 1000)
    with pytest.raises(PermanentFetchError, match="cannot be decompressed"):
        body.feed(b"\xff\xffthis is plain text")


def test_padding_behind_a_compressed_body_is_ignored():
    body = BoundedBody("gzip", 10_000)
    assert not body.feed(gzip.compress(TEXT, mtime=0) + b"\xff\x00\xff")
    assert body.data == TEXT


@pytest.mark.parametrize(
    ("encoding", "compress"),
    [("gzip", gzip.compress), ("br", brotli.compress), ("zstd", zstandard.compress)],
)
def test_a_compressed_body_that_ends_early_gives_what_it_has(encoding, compress):
    # Longer than a block of zstd, which gives whole blocks only.
    data = compress(os.urandom(300_000))
    body = BoundedBody(encoding, 1_000_000)
    feed(body, data[:200_000], 1000)
    assert 0 < len(body.data) < 300_000


@given(st.binary(max_size=300), st.integers(1, 50), st.sampled_from(ENCODINGS))
def test_any_bytes_stay_within_the_limit(data, chunk, encoding):
    body = BoundedBody(encoding, 100)
    try:
        feed(body, data, chunk)
    except PermanentFetchError:
        return
    assert len(body.data) <= 100


def test_a_body_that_comes_by_the_byte_is_kept_in_one_piece():
    body = BoundedBody("", 10**6)
    for _ in range(50_000):
        assert body.feed(b"ab")
    assert (body.data, body.size) == (b"ab" * 50_000, 100_000)
    assert len(body._pieces) == 2


def test_members_of_gzip_have_a_limit():
    few = BoundedBody("gzip", 10**6)
    assert few.feed(gzip.compress(b"x") * MAX_GZIP_MEMBERS)
    many = BoundedBody("gzip", 10**6)
    assert not many.feed(gzip.compress(b"x") * (MAX_GZIP_MEMBERS + 1))
    assert (many.data, many.is_truncated) == (b"x" * MAX_GZIP_MEMBERS, True)


@pytest.mark.parametrize(
    ("encoding", "data"), [*ENCODED[2:], ("zstd", b"\x28\xb5\x2f\xfd damaged")]
)
def test_nothing_of_a_page_stays_when_it_is_forgotten(encoding, data):
    """Not even until the garbage collector comes, which does not see into libraries."""
    body = BoundedBody(encoding, 10_000)
    with contextlib.suppress(PermanentFetchError):
        body.feed(data)
    assert body._decoder is not None
    decoder = weakref.ref(body._decoder)
    del body
    assert decoder() is None
