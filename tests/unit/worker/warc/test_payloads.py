"""Bodies as they were sent, with and without what their headers say of them."""

import gzip

import brotli
import pytest
import zstandard

from manyhands.worker.warc.payloads import page_of, parsed_head, unchunked

PAGE = b"<!doctype html><title>x</title>" * 10
CHUNKED = b"%x\r\n%b\r\n%x;name=value\r\n%b\r\n0\r\n\r\n" % (
    100,
    PAGE[:100],
    len(PAGE) - 100,
    PAGE[100:],
)


def test_chunks_are_taken_off() -> None:
    assert unchunked(CHUNKED) == PAGE


@pytest.mark.parametrize(
    "body", [b"", PAGE, b"12\r\nnot so long", b"ff", b"zz\r\nx", b"3\r\nabcd\r\n"]
)
def test_what_has_no_chunks_stays_as_it_is(body: bytes) -> None:
    assert unchunked(body) in (body, b"not so long")


def test_chunks_that_are_cut_off_are_taken_off_as_far_as_they_go() -> None:
    for end in range(10, len(CHUNKED)):
        assert PAGE.startswith(unchunked(CHUNKED[:end])[:1])


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(PAGE, mtime=0)),
        ("br", brotli.compress(PAGE)),
        ("zstd", zstandard.compress(PAGE)),
        ("", PAGE),
        ("identity", PAGE),
        # The headers are as they were sent, the body is not.
        ("gzip", PAGE),
        ("something", PAGE),
    ],
)
@pytest.mark.parametrize("is_chunked", [True, False])
def test_a_page_is_what_was_meant(encoding: str, body: bytes, is_chunked: bool) -> None:
    sent = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if is_chunked else body
    assert page_of(sent, "chunked", encoding, 10_000) == (PAGE, False)


def test_a_page_is_cut_however_it_was_packed() -> None:
    bomb = gzip.compress(bytes(10_000_000))
    page, is_cut = page_of(bomb, "", "gzip", 1000)
    assert (len(page), is_cut) == (1000, True)
    assert page_of(PAGE, "", "", 10) == (PAGE[:10], True)


def test_a_head_is_read_as_it_comes() -> None:
    lines = [
        b"HTTP/1.0 301 Moved\r\n",
        b"LOCATION: /a\r\n",
        b"no header\r\n",
        b"X-Robots-Tag: noindex\r\n",
        b"x-robots-tag : nofollow\r\n",
        b"Long: a\r\n",
        b"\t b\r\n",
        b"Location: /b\r\n",
        b"\r\n",
    ]
    headers, status = parsed_head(lines)
    assert status == 301
    assert headers == {b"location": b"/a", b"x-robots-tag": b"noindex, nofollow", b"long": b"a b"}


@pytest.mark.parametrize("line", [b"HTTP/1.1", b"HTTP/1.1 abc", b"HTTP/1.1 2000 x", b"\r\n"])
def test_a_status_that_cannot_be_read_is_none(line: bytes) -> None:
    assert parsed_head([line])[1] == 0


def test_no_head_has_neither() -> None:
    assert parsed_head([]) == ({}, 0)
