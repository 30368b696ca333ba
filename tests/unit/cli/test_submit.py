import gzip
from collections.abc import AsyncIterator

import orjson
import pytest
import zstandard

from manyhands.cli.seeds import UsageError
from manyhands.cli.submit import NDJSON, PLAIN, Kind, kind_of, sending, wrapped

URLS = b"https://a.example/\nhttps://b.example/\n"
ARGUMENTS = b'{"url": "https://a.example/"}\n\n{"url": "https://b.example/"}'
JOBS = b'{"jobtype": "add", "args": {"a": 1, "b": 2}}\n'


@pytest.mark.parametrize(
    ("beginning", "kind"),
    [
        (URLS, Kind("", PLAIN)),
        (b"\n \n" + ARGUMENTS, Kind("", NDJSON, are_arguments=True)),
        (JOBS, Kind("", NDJSON)),
        (gzip.compress(URLS, mtime=0), Kind("gzip", PLAIN)),
        (gzip.compress(JOBS, mtime=0), Kind("gzip", NDJSON)),
        (zstandard.compress(ARGUMENTS), Kind("zstd", NDJSON, are_arguments=True)),
    ],
)
def test_what_a_file_is_shows_at_its_beginning(beginning, kind):
    assert kind_of(beginning) == kind


def test_a_beginning_may_end_anywhere_in_what_is_packed():
    packed = gzip.compress(b"".join(b"https://%d.example/\n" % n for n in range(9999)))
    assert kind_of(packed[:500]) == Kind("gzip", PLAIN)


def test_a_broken_file_is_told():
    with pytest.raises(UsageError, match="cannot be unpacked"):
        kind_of(b"\x1f\x8b" + b"x" * 100)


def test_urls_and_whole_jobs_are_sent_as_they_are():
    packed = sending(Kind("gzip", PLAIN), "fetch", None)
    assert packed.headers == {"Content-Type": PLAIN, "Content-Encoding": "gzip"}
    assert (packed.path, packed.wrap) == ("/jobs", None)
    assert sending(Kind("", NDJSON), "fetch", None).wrap is None


def test_seeds_go_to_their_crawl_packed_or_not():
    order = sending(Kind("zstd", NDJSON, are_arguments=True), "fetch", 7)
    assert order.path == "/crawls/7/seeds?last=true"
    assert order.headers == {"Content-Type": NDJSON, "Content-Encoding": "zstd"}
    assert order.wrap is None


def test_jobs_are_no_seeds():
    with pytest.raises(UsageError, match="jobs, not seeds"):
        sending(Kind("", NDJSON), "fetch", 7)


def test_lines_of_text_are_pages_to_fetch_and_nothing_else():
    with pytest.raises(UsageError, match="not arguments of add"):
        sending(Kind("", PLAIN), "add", None)


async def in_pieces(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_arguments_are_wrapped_line_by_line_and_blank_lines_keep_their_place(size):
    order = sending(Kind("", NDJSON, are_arguments=True), "fetch", None)
    assert order.wrap is not None
    out = b"".join([piece async for piece in wrapped(in_pieces(ARGUMENTS, size), order.wrap, None)])
    first, blank, last = out.splitlines()
    assert orjson.loads(first) == {"jobtype": "fetch", "args": {"url": "https://a.example/"}}
    assert blank == b""
    assert orjson.loads(last) == {"jobtype": "fetch", "args": {"url": "https://b.example/"}}


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
async def test_files_that_were_joined_are_read_to_their_end(pack):
    joined = pack(ARGUMENTS + b"\n") + pack(ARGUMENTS + b"\n")
    order = sending(kind_of(joined), "fetch", None)
    assert order.wrap is not None
    pieces = in_pieces(joined, 10)
    out = b"".join([piece async for piece in wrapped(pieces, order.wrap, order.unpacking)])
    assert out.count(b"https://b.example/") == 2


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
async def test_a_file_that_is_cut_off_is_told(pack):
    packed = pack(ARGUMENTS)
    order = sending(Kind("gzip" if pack is gzip.compress else "zstd", NDJSON, True), "fetch", None)
    assert order.wrap is not None
    with pytest.raises(UsageError, match="cut off"):
        async for _ in wrapped(in_pieces(packed[:-4], 10), order.wrap, order.unpacking):
            pass


async def test_packed_arguments_are_unpacked_for_that():
    order = sending(Kind("gzip", NDJSON, are_arguments=True), "fetch", None)
    assert "Content-Encoding" not in order.headers
    assert order.wrap is not None
    pieces = in_pieces(gzip.compress(ARGUMENTS, mtime=0), 5)
    out = b"".join([piece async for piece in wrapped(pieces, order.wrap, order.unpacking)])
    assert len(out.splitlines()) == 3
    assert b"https://b.example/" in out
