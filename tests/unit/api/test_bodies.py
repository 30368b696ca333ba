"""Bodies: within their limits, unpacked in bounded memory, split into lines."""

import asyncio
import contextlib
import gzip
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from manyhands.api import bodies
from manyhands.api.bodies import (
    PATIENCE_S,
    SLOWEST_BYTES_PER_S,
    ZSTD_PACKED_BYTES,
    Chunks,
    ClientGone,
    Lines,
    Pace,
    Unpacker,
    read_body,
    unpack_whole,
    unpacker,
)
from manyhands.api.problems import Problem, shutting_down
from tests.support.virtual_time import run_in_virtual_time
from tests.unit.api.requests import body_of, never_stopped, vanishing

MEBIBYTE = 1024 * 1024


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": zstd,
    "": bytes,
    "identity": bytes,
}
packed = pytest.mark.parametrize("encoding", ["gzip", "zstd"])


def feed(stage: Unpacker, *chunks: bytes) -> bytes:
    data = b"".join(part for chunk in chunks for part in stage.unpack(chunk))
    stage.end()
    return data


# Whole bodies


async def test_a_body_is_read_to_its_end():
    assert await read_body(body_of(b"one"), 10) == b"one"
    assert await read_body(body_of(b"one", b"", b"two"), 10) == b"onetwo"
    assert await read_body(body_of(b""), 10) == b""


@pytest.mark.parametrize("pieces", [[b"x" * 11], [b"x" * 6, b"x" * 5], [b"x"] * 11])
async def test_a_body_over_its_limit_is_refused(pieces):
    with pytest.raises(Problem) as caught:
        await read_body(body_of(*pieces), 10)
    assert (caught.value.status, caught.value.more) == (413, {"limit": 10})


async def test_a_body_of_just_the_limit_is_taken():
    assert await read_body(body_of(b"x" * 6, b"x" * 4), 10) == b"x" * 10


async def test_an_endless_body_is_refused_at_the_limit_not_at_its_end():
    with pytest.raises(Problem) as caught:
        await read_body(body_of(b"x" * 11, ends=False), 10)
    assert caught.value.status == 413


async def test_a_body_that_does_not_come_is_given_up(monkeypatch):
    monkeypatch.setattr(bodies, "SILENCE_S", 0.01)
    with pytest.raises(Problem) as caught:
        await read_body(body_of(b"x", ends=False), 10)
    assert caught.value.status == 408


async def test_a_client_that_goes_away_is_no_body():
    with pytest.raises(ClientGone):
        await read_body(vanishing(), 10)
    with pytest.raises(ClientGone):
        await read_body(vanishing(b"x"), 10)


# Bodies of any length


async def test_chunks_come_as_they_were_sent_and_end():
    chunks = Chunks(body_of(b"a", b"b"), never_stopped())
    assert [await chunks.next(), await chunks.next()] == [b"a", b"b"]
    assert await chunks.next() is None
    assert await chunks.next() is None


async def test_chunks_end_with_the_client():
    chunks = Chunks(vanishing(b"a"), never_stopped())
    assert await chunks.next() == b"a"
    with pytest.raises(ClientGone):
        await chunks.next()


async def test_a_silent_sender_is_given_up_and_the_time_counts_from_its_last_word(monkeypatch):
    monkeypatch.setattr(bodies, "SILENCE_S", 0.01)
    chunks = Chunks(body_of(b"a", ends=False), never_stopped())
    assert await chunks.next() == b"a"
    with pytest.raises(Problem) as caught:
        await chunks.next()
    assert caught.value.status == 408


async def test_a_stop_ends_the_wait_for_a_sender_that_says_nothing():
    stop = never_stopped()
    chunks = Chunks(body_of(ends=False), stop)
    waiting = asyncio.ensure_future(chunks.next())
    await asyncio.sleep(0)
    stop.set_result(shutting_down())
    with pytest.raises(Problem) as caught:
        await waiting
    assert caught.value is stop.result()


async def test_a_stop_ends_a_sender_that_never_pauses():
    stop = never_stopped()
    chunks = Chunks(body_of(*[b"a"] * 100, ends=False), stop)
    assert await chunks.next() == b"a"
    stop.set_result(shutting_down())
    with pytest.raises(Problem):
        await chunks.next()


async def test_a_stop_after_the_end_changes_nothing():
    stop = never_stopped()
    chunks = Chunks(body_of(b"a"), stop)
    await chunks.next()
    stop.set_result(shutting_down())
    assert await chunks.next() is None


# Packed bodies


@pytest.mark.parametrize("encoding", PACKERS)
@given(data=st.binary(max_size=2000), cuts=st.lists(st.integers(0, 2000), max_size=5))
def test_what_was_packed_comes_out_however_it_is_cut_into_chunks(encoding, data, cuts):
    body = PACKERS[encoding](data)
    places = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    chunks = [body[start:end] for start, end in pairwise(places)]
    assert feed(unpacker(encoding), *chunks) == data


@packed
def test_a_large_body_comes_out_whole(encoding):
    data = b"".join(b"%d," % number for number in range(200_000))
    assert feed(unpacker(encoding), PACKERS[encoding](data)) == data
    assert unpack_whole(PACKERS[encoding](data), encoding, len(data)) == data


@packed
def test_packed_files_may_be_joined(encoding):
    pack = PACKERS[encoding]
    joined = pack(b"one\n") + pack(b"") + pack(b"two\n")
    assert feed(unpacker(encoding), joined) == b"one\ntwo\n"
    assert feed(unpacker(encoding), *(bytes([byte]) for byte in joined)) == b"one\ntwo\n"


@packed
def test_a_body_that_is_cut_off_is_refused(encoding):
    body = PACKERS[encoding](b"some text that goes on " * 100)
    for length in (1, len(body) // 2, len(body) - 1):
        stage = unpacker(encoding)
        list(stage.unpack(body[:length]))
        with pytest.raises(Problem, match="cut off") as caught:
            stage.end()
        assert caught.value.status == 400


@packed
@pytest.mark.parametrize("body", [b"plain text", b"\x00" * 100, b"{}"])
def test_a_body_that_is_not_what_it_says_is_refused(encoding, body):
    with pytest.raises(Problem) as caught:
        feed(unpacker(encoding), body)
    assert caught.value.status == 400


@packed
def test_garbage_behind_a_packed_body_is_refused(encoding):
    with pytest.raises(Problem):
        feed(unpacker(encoding), PACKERS[encoding](b"x"), b"garbage that is not packed")


@packed
def test_a_packed_body_without_a_byte_is_empty(encoding):
    assert feed(unpacker(encoding)) == b""
    assert feed(unpacker(encoding), b"") == b""


def test_zstd_frames_to_be_skipped_are_skipped():
    skippable = bytes.fromhex("502a4d18") + (4).to_bytes(4, "little") + b"skip"
    assert feed(unpacker("zstd"), skippable + zstd(b"x")) == b"x"


def test_a_zstd_window_that_would_take_too_much_memory_is_refused():
    parameters = zstandard.ZstdCompressionParameters(window_log=27, enable_ldm=True)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    body = compressor.compress(b"x" * 1000) + compressor.flush()
    with pytest.raises(Problem, match="not zstd"):
        feed(unpacker("zstd"), body)


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, zstd", "x" * 1000, "compress"])
def test_an_encoding_that_is_not_known_is_refused(encoding):
    with pytest.raises(Problem) as caught:
        unpacker(encoding)
    assert caught.value.status == 415
    assert len(caught.value.detail) < 200


def bomb(encoding: str, size: int) -> bytes:
    """Much from little: a mebibyte of it is a few hundred bytes."""
    return PACKERS[encoding](bytes(size))


@packed
def test_a_bomb_is_refused_at_the_limit_and_never_unpacked(encoding):
    body = bomb(encoding, 256 * MEBIBYTE)
    tracemalloc.start()
    try:
        with pytest.raises(Problem) as caught:
            unpack_whole(body, encoding, MEBIBYTE)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert caught.value.status == 413
    assert peak < 32 * MEBIBYTE


@packed
def test_a_bomb_in_a_stream_comes_out_in_pieces(encoding):
    body = bomb(encoding, 64 * MEBIBYTE)
    largest = total = 0
    stage = unpacker(encoding)
    for part in stage.unpack(body):
        largest = max(largest, len(part))
        total += len(part)
    stage.end()
    assert total == 64 * MEBIBYTE
    # A zstd block of 128 KiB takes four bytes at least.
    assert largest <= max(bodies.UNPACKED_BYTES, ZSTD_PACKED_BYTES // 4 * 128 * 1024)


def test_a_gzip_body_needs_its_checksum():
    body = bytearray(gzip.compress(b"some text"))
    body[-8] ^= 1
    with pytest.raises(Problem, match="not gzip"):
        feed(unpacker("gzip"), bytes(body))


def test_a_zlib_body_is_not_gzip():
    with pytest.raises(Problem, match="not gzip"):
        feed(unpacker("gzip"), zlib.compress(b"some text"))


def test_a_whole_body_of_just_the_limit_is_taken():
    assert unpack_whole(gzip.compress(b"x" * 10), "gzip", 10) == b"x" * 10
    with pytest.raises(Problem):
        unpack_whole(gzip.compress(b"x" * 11), "gzip", 10)


# Lines


def split(*chunks: bytes, limit: int = 100) -> list[bytes]:
    lines = Lines(limit)
    found = [line for chunk in chunks for line in lines.feed(chunk)]
    return [*found, *lines.last()]


@given(st.lists(st.binary(max_size=10).map(lambda line: line.replace(b"\n", b"")), max_size=8))
def test_lines_come_out_as_they_went_in_however_they_are_cut(lines):
    body = b"".join(line + b"\n" for line in lines)
    assert split(body) == lines
    assert split(*(bytes([byte]) for byte in body)) == lines


def test_the_last_line_needs_no_end():
    assert split(b"a\nb") == [b"a", b"b"]
    assert split(b"a", b"\nb\n", b"c") == [b"a", b"b", b"c"]
    assert split() == split(b"") == []
    assert split(b"\n\n") == [b"", b""]


def test_what_follows_from_the_lines_is_known_before_the_next_chunk():
    lines = Lines(100)
    assert list(lines.feed(b"a\nb")) == [b"a"]
    assert list(lines.feed(b"\n")) == [b"b"]
    assert list(lines.last()) == []


@pytest.mark.parametrize(
    "chunks",
    [[b"x" * 11], [b"x" * 11 + b"\n"], [b"x" * 6, b"x" * 5], [b"a\n" + b"x" * 11 + b"\nb\n"]],
)
def test_a_line_that_is_too_long_is_refused_whether_its_end_is_there_or_not(chunks):
    with pytest.raises(Problem) as caught:
        split(*chunks, limit=10)
    assert (caught.value.status, caught.value.more) == (413, {"limit": 10})


def test_the_lines_before_one_that_is_too_long_are_there():
    lines = Lines(10)
    found = lines.feed(b"a\nb\n" + b"x" * 11 + b"\nc\n")
    assert [next(found), next(found)] == [b"a", b"b"]
    with pytest.raises(Problem):
        next(found)


def test_a_line_of_just_the_limit_is_taken():
    assert split(b"x" * 10 + b"\n" + b"y" * 10, limit=10) == [b"x" * 10, b"y" * 10]


def test_a_long_line_in_small_pieces_takes_no_longer_than_its_length():
    """Joined once, not with every piece: a hundred thousand pieces would be five gigabytes."""
    lines = Lines(MEBIBYTE)
    for _ in range(100_000):
        assert list(lines.feed(b"x" * 10)) == []
    assert list(lines.feed(b"\n")) == [b"x" * 1_000_000]


# The pace


def test_a_stream_that_comes_as_fast_as_it_is_read_is_never_too_slow():
    pace = Pace()
    for _ in range(1000):
        pace.add(0.0, 1)
    assert not pace.is_too_slow


def test_a_byte_now_and_then_is_too_slow_when_patience_ends():
    pace = Pace()
    pace.add(PATIENCE_S, 1)
    assert not pace.is_too_slow
    pace.add(0.1, 1)
    assert pace.is_too_slow


def test_what_came_fast_pays_for_a_pause():
    pace = Pace()
    pace.add(1.0, 100 * SLOWEST_BYTES_PER_S)
    pace.add(99.0, 1)
    assert not pace.is_too_slow
    pace.add(1.0, 0)
    assert pace.is_too_slow


def test_a_stream_of_a_byte_every_four_seconds_is_ended():
    async def trickle() -> dict[str, object]:
        await asyncio.sleep(4)
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def run() -> None:
        chunks = Chunks(trickle, never_stopped())
        with pytest.raises(Problem, match="256 bytes/s") as caught:
            while True:
                await chunks.next()
        assert (caught.value.status, caught.value.closes) == (408, True)
        assert asyncio.get_running_loop().time() == pytest.approx(12)

    run_in_virtual_time(run())


async def test_room_is_held_only_while_more_than_one_piece_comes():
    entered: list[str] = []

    @contextlib.contextmanager
    def room() -> Iterator[None]:
        entered.append("in")
        yield
        entered.append("out")

    assert await read_body(body_of(b"whole"), 10, room) == b"whole"
    assert entered == []
    assert await read_body(body_of(b"in ", b"two"), 10, room) == b"in two"
    assert entered == ["in", "out"]
