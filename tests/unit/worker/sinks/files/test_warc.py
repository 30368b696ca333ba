"""Captured pages → WARC records that other programs read, whatever a server sent."""

import gzip
import io
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fastwarc.warc import ArchiveIterator
from hypothesis import given
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator as WarcioIterator

from manyhands.worker.records import Capture
from manyhands.worker.sinks.files import warc_records as writing
from manyhands.worker.sinks.files.warc import WarcFormat, WarcSink
from manyhands.worker.sinks.files.warc_records import (
    capture_records,
    record_id,
    response_head,
    warcinfo_record,
)
from manyhands.worker.sinks.protocol import RecordsRefused
from tests.support.file_sinks import (
    HEAD,
    capture,
    fields_of,
    warc_files,
    warc_ids,
    warcio_complaints,
)
from tests.support.sink_records import page

MEGABYTE = 1024 * 1024


def read(data: bytes) -> list[tuple[dict[str, str], bytes]]:
    """Headers and block of each record, by FastWARC, which checks the digests."""
    found = []
    for record in ArchiveIterator(io.BytesIO(data), parse_http=False):
        record.freeze()
        if "WARC-Block-Digest" in record.headers:
            assert record.verify_block_digest()
        found.append((record.headers.asdict(), record.reader.read()))
    return found


def by_warcio(data: bytes) -> list[Any]:
    """Each record with its content, all digests checked."""
    found = []
    for record in WarcioIterator(io.BytesIO(data), check_digests="raise"):
        record.content = record.content_stream().read()
        assert record.digest_checker.passed is not False
        found.append(record)
    return found


def as_it_is(record: bytes) -> bytes:
    return record


def response_of(made: Capture) -> Any:
    return by_warcio(capture_records(made, as_it_is))[1]


def test_a_page_is_a_request_a_response_and_a_metadata_record():
    made = capture(1)
    (request, sent), (response, answer), (metadata, fields) = read(
        WarcFormat("gzip").encode([made])
    )
    assert [one["WARC-Type"] for one in (request, response, metadata)] == [
        *("request", "response", "metadata"),
    ]
    for headers in (request, response, metadata):
        assert headers["WARC-Target-URI"] == made.url
        assert headers["WARC-Date"] == made.fetched_at
    assert request["WARC-Concurrent-To"] == response["WARC-Record-ID"]
    assert response["WARC-Concurrent-To"] == request["WARC-Record-ID"]
    assert metadata["WARC-Concurrent-To"] == response["WARC-Record-ID"]
    assert request["WARC-IP-Address"] == response["WARC-IP-Address"] == made.address
    assert request["Content-Type"] == "application/http; msgtype=request"
    assert response["Content-Type"] == "application/http; msgtype=response"
    assert sent == made.request
    assert answer.endswith(b"\r\n\r\n" + made.body)
    assert fields_of(fields) == {"id": made.id, "crawl": "7", "depth": "2"}


def test_headers_of_the_transfer_are_kept_under_names_that_nobody_acts_upon():
    head = (
        b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\nContent-Encoding : gzip\r\n"
        b"TRANSFER-ENCODING: chunked\r\nX-Content-Length: 9\r\n\r\n"
    )
    response = response_of(capture(1, head=head, body=b"hello"))
    assert response.http_headers.headers == [
        ("X-Crawl-content-length", "7"),
        ("X-Crawl-Content-Encoding", "gzip"),
        ("X-Crawl-TRANSFER-ENCODING", "chunked"),
        ("X-Content-Length", "9"),
        ("Content-Length", "5"),
    ]
    assert response.content == b"hello"


def test_the_same_capture_is_the_same_bytes_again():
    assert WarcFormat("gzip").encode([capture(1)]) == WarcFormat("gzip").encode([capture(1)])
    assert WarcFormat("zstd").encode([capture(1)]) == WarcFormat("zstd").encode([capture(1)])


@given(st.text(st.characters(exclude_categories=())), st.sampled_from(["request", "response"]))
def test_a_record_id_is_a_uuid_of_version_5(name: str, kind: str):
    text = record_id(name, kind)
    found = uuid.UUID(text.removeprefix("<urn:uuid:").removesuffix(">"))
    assert found.version == 5
    if name.isascii():
        expected = uuid.uuid5(uuid.UUID(bytes=writing._NAMESPACE), f"{kind}:{name}")
        assert found == expected


def test_all_record_ids_of_a_page_differ():
    records = read(WarcFormat("gzip").encode([capture(1), capture(2)]))
    assert len({headers["WARC-Record-ID"] for headers, _ in records}) == 6


def test_a_cut_page_says_so():
    assert response_of(capture(1)).rec_headers["WARC-Truncated"] is None
    assert response_of(capture(1, is_truncated=True)).rec_headers["WARC-Truncated"] == "length"
    left_out = response_of(capture(1, is_left_out=True))
    assert left_out.rec_headers["WARC-Truncated"] == "unspecified"


def test_what_is_not_known_is_left_out():
    response = response_of(capture(1, address=""))
    assert response.rec_headers["WARC-IP-Address"] is None
    metadata = read(capture_records(capture(1, crawl=None, depth=None), as_it_is))[2]
    assert list(fields_of(metadata[1])) == ["id"]


@pytest.mark.parametrize(
    ("moment", "date"),
    [
        ("2026-11-17T05:44:33Z", "2026-11-17T05:44:33Z"),
        ("2026-11-17T05:44:33.1234567Z", "2026-11-17T05:44:33.1234567Z"),
        ("2026-11-17T07:44:33+02:00", "2026-11-17T05:44:33Z"),
    ],
)
def test_the_date_is_that_of_the_fetch_in_utc(moment: str, date: str):
    assert response_of(capture(1, fetched_at=moment)).rec_headers["WARC-Date"] == date


def test_a_file_begins_with_what_it_is():
    (headers, block), *_ = read(
        WarcFormat("gzip").beginning("some.warc.gz", 1_800_000_000.5)
        + WarcFormat("gzip").encode([capture(1)])
    )
    assert headers["WARC-Type"] == "warcinfo"
    assert headers["WARC-Filename"] == "some.warc.gz"
    assert headers["WARC-Date"] == "2027-01-15T08:00:00.500000Z"
    assert fields_of(block)["format"] == "WARC File Format 1.1"


def test_each_record_is_a_member_of_its_own():
    members: list[bytes] = []

    def pack(record: bytes) -> bytes:
        members.append(record)
        return b""

    capture_records(capture(1), pack)
    packed = WarcFormat("gzip").encode([capture(1)])
    assert gzip.decompress(packed) == b"".join(members)
    assert packed.count(b"\x1f\x8b\x08") == len(members) == 3


# Hostile captures


HOSTILE_HEADS = {
    "bare line feeds": b"HTTP/1.1 200 OK\nContent-Encoding: gzip\nX: y\n\n",
    "bare carriage returns": b"HTTP/1.1 200 OK\rContent-Length: 3\r\r",
    "an empty line in the middle": b"HTTP/1.1 200 OK\r\nX: y\r\n\r\nContent-Encoding: gzip\r\n\r\n",
    "lines of white space": b"HTTP/1.1 200 OK\r\n \t\r\n\xa0\r\n\x1c\r\n\xe2\x80\x83\r\nX: y\r\n",
    "continued lines": b"HTTP/1.1 200 OK\r\nX: y\r\n Content-Encoding: gzip\r\n\tz\r\n\r\n",
    "a record in a header": b"HTTP/1.1 200 OK\r\nX: \r\n\r\nWARC/1.1\r\nWARC-Type: metadata\r\n",
    "no end": b"HTTP/1.1 200 OK\r\nX: y",
    "only a status line": b"HTTP/1.0 404\r\n\r\n",
    "no reason": b"HTTP/1.1 200 \r\n\r\n",
    "another version": b"HTTP/2.0 200 OK\r\nContent-Encoding: br\r\n\r\n",
    "another protocol": b"ICY 200 OK\r\nicy-name: radio\r\n\r\n",
    "no text": b"HTTP/1.1 200 \xff\xfe\r\nX: \x80\x81\r\n\xff: z\r\n\r\n",
    "no colon": b"HTTP/1.1 200 OK\r\nthis is no header\r\nX: y\r\n\r\n",
    "NUL": b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n",
    "odd names": b"HTTP/1.1 200 OK\r\n: empty\r\ncontent encoding: x\r\n\x0bContent-Length: 3\r\n",
    "a long header": b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 60_000 + b"\r\nY: z\r\n\r\n",
    "many headers": b"HTTP/1.1 200 OK\r\n" + b"X: 0123456789\r\n" * 5000 + b"\r\n",
    "a long reason": b"HTTP/1.1 200 " + b"y" * 60_000 + b"\r\nY: z\r\n\r\n",
}


@pytest.mark.parametrize("head", HOSTILE_HEADS.values(), ids=HOSTILE_HEADS)
def test_a_hostile_head_does_no_harm(head: bytes):
    body = b"WARC/1.1\r\nWARC-Type: response\r\nContent-Length: 0\r\n\r\n\r\n\r\n"
    data = WarcFormat("gzip").encode([capture(1, head=head, body=body), capture(2)])
    records = by_warcio(data)
    assert [record.rec_type for record in records] == ["request", "response", "metadata"] * 2
    assert records[1].content == body
    assert records[1].http_headers["Content-Length"] == str(len(body))
    assert len(read(data)) == 6
    for record in ArchiveIterator(io.BytesIO(data), parse_http=True):
        if record.headers["WARC-Type"] == "response":
            record.freeze()
            assert record.verify_payload_digest()


def test_headers_that_are_left_out_are_counted():
    head = b"HTTP/1.1 200 OK\r\nA: 1\r\nX: " + b"y" * 60_000 + b"\r\nY: z\r\n\r\n"
    assert response_of(capture(1, head=head, body=b"")).http_headers.headers == [
        ("A", "1"),
        ("Y", "z"),
        ("X-Crawl-Headers-Left-Out", "1"),
        ("Content-Length", "0"),
    ]


@given(st.binary(max_size=300), st.binary(max_size=40))
def test_any_head_and_body_make_records_that_can_be_read(rest: bytes, body: bytes):
    made = capture(1, head=b"HTTP/1.1 200 OK\r\n" + rest, body=body)
    response = response_of(made)
    assert response.content == body
    assert response.http_headers["Content-Length"] == str(len(body))
    assert len(read(capture_records(made, as_it_is))) == 3


@pytest.mark.parametrize(
    "head", [b"", b"\r\n\r\n", b"X: y\r\n\r\n", b"<html>", b"HTTP/1.1 OK\r\n\r\n"]
)
def test_an_answer_without_a_status_is_refused(head: bytes):
    with pytest.raises(ValueError, match="no status line"):
        response_head(head, 0)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        (
            "http://a.example/\r\nWARC-Type: warcinfo\r\n\r\n",
            "http://a.example/%0D%0AWARC-Type:%20warcinfo%0D%0A%0D%0A",
        ),
        ("HTTPS://a.example/ä b", "https://a.example/%C3%A4%20b"),
        ("http://a.example/\ud800", "http://a.example/%ED%A0%80"),
    ],
)
def test_a_url_cannot_begin_a_line(url: str, target: str):
    response = response_of(capture(1, url=url))
    assert response.rec_headers["WARC-Target-URI"] == target
    assert len(response.rec_headers.headers) == 10


def test_an_id_cannot_begin_a_line():
    records = read(capture_records(capture(1, id="a\r\ncrawl: 9\r\n\r\nWARC/1.1 ü"), as_it_is))
    fields = fields_of(records[2][1])
    assert fields["id"] == "a%0D%0Acrawl: 9%0D%0A%0D%0AWARC/1.1 %C3%BC"
    assert fields["crawl"] == "7"


def test_an_address_or_date_cannot_begin_a_line():
    response = response_of(capture(1, address="1.2.3.4\r\nX: y"))
    assert response.rec_headers["WARC-IP-Address"] is None
    with pytest.raises(ValueError, match="isoformat"):
        capture_records(capture(1, fetched_at="2026-11-17T05:44:33Z\r\nX: y"), as_it_is)


def test_a_request_cannot_hold_a_second_one():
    sent = b"GET / HTTP/1.1\nHost: a\n\nGET /2 HTTP/1.1\r\n\r\n"
    request = by_warcio(capture_records(capture(1, request=sent), as_it_is))[0]
    assert request.content == b""


@pytest.mark.parametrize(
    "changed",
    [
        {"url": "ftp://a.example/"},
        {"url": "http:"},
        {"url": "http://a.example/" + "ü" * 3000},
        {"head": b""},
        {"request": b""},
        {"fetched_at": "yesterday"},
        {"fetched_at": "2026-11-17T05:44:33"},
    ],
)
def test_what_no_file_can_hold_is_refused_by_its_place(changed: dict[str, Any]):
    with pytest.raises(RecordsRefused) as raised:
        WarcFormat("gzip").encode([capture(1), capture(2, **changed), capture(3)])
    assert list(raised.value.reasons) == [1]


@pytest.mark.parametrize("body", [b"", b"\0", bytes(range(256)) * 40 * 1024], ids=len)
def test_a_body_is_kept_whatever_its_size(body: bytes):
    data = WarcFormat("gzip").encode([capture(1, body=body)])
    assert by_warcio(data)[1].content == body


def test_a_file_name_cannot_begin_a_line():
    (headers, _), *_ = read(warcinfo_record("a\r\nX: y", "2026-11-17T05:44:33Z", as_it_is))
    assert headers["WARC-Filename"] == "a%0D%0AX:%20y"


# The sink


async def written(url: str, batches: Sequence[Sequence[Capture]]) -> None:
    sink = WarcSink(url)
    await sink.open()
    for batch in batches:
        await sink.write(batch)
    await sink.close()


async def test_files_pass_the_check_of_warcio(tmp_path: Path):
    hostile = [
        capture(100 + number, id=name, head=head)
        for number, (name, head) in enumerate(HOSTILE_HEADS.items())
    ]
    large = capture(50, body=b"0123456789" * MEGABYTE)
    await written(f"warc:{tmp_path}", [[capture(1), capture(2)], hostile, [large, capture(1)]])
    (file,) = warc_files(tmp_path)
    assert warcio_complaints([file]) == ""
    expected = [page(1).id, page(2).id, page(50).id, *HOSTILE_HEADS]
    assert sorted(warc_ids(tmp_path)) == sorted(expected)


async def test_files_can_be_compressed_by_zstd(tmp_path: Path):
    await written(f"warc:{tmp_path}?compression=zstd", [[capture(n)] for n in range(20)])
    (file,) = warc_files(tmp_path)
    assert file.name.endswith(".warc.zst")
    assert sorted(warc_ids(tmp_path)) == sorted(page(n).id for n in range(20))


async def test_another_compression_begins_another_file_and_takes_no_record_twice(tmp_path: Path):
    for compression in ("gzip", "zstd", "gzip"):
        url = f"warc:{tmp_path}?compression={compression}"
        await written(url, [[capture(1), capture(2)]])
    assert len(warc_files(tmp_path)) == 1
    assert warc_ids(tmp_path) == {page(1).id: 1, page(2).id: 1}


def test_a_well_formed_head_is_kept_byte_for_byte():
    head = b"HTTP/1.1 200 OK\r\nB: 1 \r\na:2\r\nB: \xe4\r\n\r\n"
    assert response_head(head, 3) == head[:-2] + b"Content-Length: 3\r\n\r\n"
    assert HEAD.count(b"\r\n") + 1 == response_head(HEAD, 3).count(b"\r\n")
