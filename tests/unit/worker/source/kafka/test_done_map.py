"""The map of what is done: what is written is read again, and always fits."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.worker.source.kafka.done_map import (
    METADATA_BYTES,
    PREFIX,
    ROOM_BITS,
    DoneMap,
    decode,
    encode,
    fits,
    most_bits,
)

LARGEST = 2**31


@st.composite
def maps(draw: st.DrawFn) -> DoneMap:
    span = draw(st.integers(1, 100_000))
    open_ = draw(st.sets(st.integers(0, span - 1), max_size=300))
    return DoneMap(span, tuple(sorted(open_)))


@given(maps())
def test_what_is_written_is_read_again(done):
    assert decode(encode(done.span, done.open_)) == done


@given(maps())
def test_the_bound_holds_wherever_the_open_ones_are(done):
    assert fits(len(done.open_), done.span) == (most_bits(len(done.open_), done.span) <= ROOM_BITS)
    if fits(len(done.open_), done.span):
        assert len(encode(done.span, done.open_)) <= METADATA_BYTES


@given(st.integers(0, 10_000), st.integers(1, LARGEST), st.data())
def test_the_bound_of_less_is_no_higher(count, span, data):
    fewer = data.draw(st.integers(0, count))
    shorter = data.draw(st.integers(1, span))
    assert most_bits(fewer, shorter) <= most_bits(count, span)


@pytest.mark.parametrize("count", [1, 500, 5000])
def test_the_longest_map_that_fits_has_no_more_bytes_than_kafka_takes(count):
    span = max(span for span in map(int, _powers()) if fits(count, span))
    # As far apart as possible, which takes the most bits, and all at the end of the span.
    for open_ in (range(0, span, span // count), range(span - count, span)):
        metadata = encode(span, list(open_)[:count])
        assert len(metadata) <= METADATA_BYTES
        assert decode(metadata) == DoneMap(span, tuple(open_)[:count])


def _powers() -> Iterator[float]:
    return (2 ** (quarters / 4) for quarters in range(4 * 31))


def test_five_thousand_open_ones_have_room_for_seven_times_as_many_done():
    assert fits(5000, 35_000)
    assert not fits(5000, 50_000)


def test_one_open_one_hardly_limits_the_rest():
    assert fits(1, LARGEST)
    assert len(encode(LARGEST, [0])) < 40


def test_nothing_done_takes_no_metadata():
    assert encode(0, []) == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "somebody else's",
        PREFIX,
        PREFIX + "!!!",
        PREFIX + "AAAA",
        encode(1000, [1, 500])[:-4],
        encode(1000, [1, 500]) + "AAAA",
    ],
)
def test_what_is_no_map_of_ours_says_nothing(text):
    assert decode(text) is None


@given(st.binary(max_size=200))
def test_no_metadata_is_too_strange(data):
    decode(data.decode("latin-1"))
    decode(PREFIX + data.hex())
