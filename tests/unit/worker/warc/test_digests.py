"""Digests as tools write them, of blocks and of payloads."""

import base64
import hashlib

import pytest

from manyhands.worker.warc.digests import Digest, Expected, Hashing, expected_digest, look_at
from manyhands.worker.warc.payloads import unchunked

HEAD, BODY = b"HTTP/1.1 200 OK\r\n\r\n", b"body"


def base32(algorithm: str, data: bytes) -> str:
    return base64.b32encode(hashlib.new(algorithm, data).digest()).decode()


@pytest.mark.parametrize("algorithm", ["sha1", "sha256", "sha512", "md5"])
def test_both_ways_to_write_a_digest_are_read(algorithm: str) -> None:
    value = hashlib.new(algorithm, BODY).digest()
    for text in (
        f"{algorithm}:{base32(algorithm, BODY)}",
        f"{algorithm.upper()}:{base32(algorithm, BODY).lower().rstrip('=')}",
        f"{algorithm}:{value.hex()}",
        f" {algorithm} : {value.hex().upper()} ",
    ):
        assert expected_digest(text, None) == Expected(algorithm, value, is_of_block=True)
        assert expected_digest(None, text) == Expected(algorithm, value, is_of_block=False)


@pytest.mark.parametrize(
    "text",
    ["", "sha1", "sha1:", "sha1:0189", "crc32:AAAA", "sha1:" + "A" * 31, "sha1:" + "1" * 32, "x:y"],
)
def test_what_is_no_digest_is_none(text: str) -> None:
    assert expected_digest(text, None) is None


def test_the_digest_of_the_block_goes_before_that_of_the_payload() -> None:
    block, payload = f"sha1:{base32('sha1', HEAD + BODY)}", f"sha1:{base32('sha1', BODY)}"
    found = expected_digest(block, payload)
    assert found is not None and found.is_of_block
    assert look_at(found, HEAD, BODY, unchunked) is Digest.OK
    assert look_at(found, HEAD + b"x", BODY, unchunked) is Digest.BAD
    unknown = expected_digest("blake3:00", payload)
    assert unknown is not None and not unknown.is_of_block
    assert look_at(unknown, b"", BODY, unchunked) is Digest.OK


def test_a_payload_digest_may_be_with_chunks_or_without() -> None:
    chunked = b"4\r\nbody\r\n0\r\n\r\n"
    for payload in (chunked, BODY):
        expected = expected_digest(None, f"sha1:{base32('sha1', payload)}")
        assert expected is not None
        assert look_at(expected, HEAD, chunked, unchunked) is Digest.OK
    other = expected_digest(None, f"sha1:{base32('sha1', b'else')}")
    assert other is not None
    assert look_at(other, HEAD, chunked, unchunked) is Digest.BAD


def test_a_body_may_come_in_pieces() -> None:
    expected = expected_digest(f"sha256:{base32('sha256', HEAD + BODY)}", None)
    assert expected is not None
    hashing = Hashing(expected, HEAD)
    for at in range(len(BODY)):
        hashing.feed(BODY[at : at + 1])
    assert hashing.state() is Digest.OK
