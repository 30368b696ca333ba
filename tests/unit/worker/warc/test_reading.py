"""Records of whole files: what is told of each, where it is, and where to go on."""

import gzip
import io
import tracemalloc

import pytest
import zstandard
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from manyhands.worker.warc.digests import Digest
from manyhands.worker.warc.frames import NotAnArchive
from manyhands.worker.warc.reading import ArchivedRecord, Damage, Item, Position, read_archive
from tests.support.archives import (
    DATE,
    PACKS,
    Archive,
    MemoryStream,
    Pack,
    gzipped,
    http_answer,
    page,
    page_record,
    record_id,
    request_record,
    sha1,
    warc_record,
    zstandard_packed,
)

MAX_BODY = 1_000_000
START = Position()
ANY_PACK = pytest.mark.parametrize("pack", list(PACKS.values()), ids=list(PACKS))


def items_of(data: bytes, start: Position = START, max_body: int = MAX_BODY) -> list[Item]:
    return list(read_archive(MemoryStream(data), start, max_body))


def records_of(
    data: bytes, start: Position = START, max_body: int = MAX_BODY
) -> list[ArchivedRecord]:
    """Of a file that is not damaged."""
    items = items_of(data, start, max_body)
    assert not [item for item in items if isinstance(item, Damage)]
    return [item for item in items if isinstance(item, ArchivedRecord)]


@ANY_PACK
def test_a_response_is_told_with_all_that_is_known_of_it(pack: Pack) -> None:
    answer = http_answer(page(7), 404, "text/html; charset=utf-8", X_Robots_Tag="noindex")
    data = pack(
        warc_record(
            answer,
            number=7,
            WARC_Target_URI="http://example.com/a?b",
            WARC_IP_Address="192.0.2.1",
            WARC_Payload_Digest=sha1(page(7)),
        )
    )

    (record,) = records_of(data)

    assert record == ArchivedRecord(
        at=Position(0),
        after=Position(len(data)),
        kind="response",
        id=record_id(7),
        url="http://example.com/a?b",
        date=DATE,
        ip="192.0.2.1",
        status=404,
        content_type="text/html; charset=utf-8",
        transfer_encoding="",
        content_encoding="",
        robots_tag="noindex",
        head=answer[: -len(page(7))],
        body=page(7),
        length=len(page(7)),
        is_truncated=False,
        digest=sha1(page(7)),
        digest_state=Digest.OK,
    )


@ANY_PACK
def test_every_record_says_where_it_begins_and_where_the_next_does(pack: Pack) -> None:
    archive = Archive.of_pages(20, pack)

    records = records_of(archive.data)

    assert [record.at for record in records] == [Position(at) for at in archive.offsets[:-1]]
    assert [record.after for record in records] == [Position(at) for at in archive.offsets[1:]]
    assert [record.body for record in records] == [page(number, 2000) for number in range(20)]


@ANY_PACK
def test_reading_can_begin_at_every_record_and_at_the_end(pack: Pack) -> None:
    archive = Archive.of_pages(8, pack)
    for number, offset in enumerate(archive.offsets):
        found = records_of(archive.data, Position(offset))
        assert [record.id for record in found] == [record_id(n) for n in range(number, 8)]


@ANY_PACK
@pytest.mark.parametrize("piece", [1, 7, 100_000])
def test_it_does_not_matter_in_which_pieces_the_bytes_come(pack: Pack, piece: int) -> None:
    archive = Archive.of_pages(3, pack)
    found = read_archive(MemoryStream(archive.data, piece), Position(), MAX_BODY)
    assert [item.id for item in found if isinstance(item, ArchivedRecord)] == [
        record_id(number) for number in range(3)
    ]


def test_requests_and_notes_are_passed_over() -> None:
    fields = "application/warc-fields"
    uri = "http://example.com/"
    archive = Archive.of(
        [
            warc_record(
                b"software: x\r\n", kind="warcinfo", content_type="application/warc-fields"
            ),
            request_record(1),
            page_record(1),
            warc_record(b"x: 10\r\n", kind="metadata", content_type=fields, WARC_Target_URI=uri),
            warc_record(b"", kind="revisit", WARC_Target_URI=uri),
        ]
    )
    (record,) = records_of(archive.data)
    assert record.at == Position(archive.offsets[2])


def test_wet_gives_text_and_wat_gives_json() -> None:
    archive = Archive.of(
        [
            warc_record("Grüße".encode(), kind="conversion", content_type="text/plain"),
            warc_record(b'{"Envelope":{}}', kind="metadata", content_type="application/json"),
        ]
    )
    text, told = records_of(archive.data)
    assert (text.kind, text.content_type, text.body) == (
        "conversion",
        "text/plain",
        "Grüße".encode(),
    )
    assert (told.kind, told.content_type, told.body) == (
        "metadata",
        "application/json",
        b'{"Envelope":{}}',
    )
    assert (text.status, text.head, text.digest_state) == (0, b"", Digest.OK)


def test_a_record_without_an_id_or_a_digest_has_none() -> None:
    (record,) = records_of(gzipped(page_record(1, WARC_Record_ID="", WARC_Block_Digest="")))
    assert (record.id, record.digest, record.digest_state) == ("", "", Digest.NONE)


@pytest.mark.parametrize(
    ("raw", "url"),
    [
        (b"<http://example.com/a>", "http://example.com/a"),
        ("http://example.com/ü".encode(), "http://example.com/%C3%BC"),
        (b"http://example.com/\xfc \x00", "http://example.com/%FC%20%00"),
        (b"dns:example.com", "dns:example.com"),
    ],
)
def test_urls_are_escaped_where_they_are_not_ascii(raw: bytes, url: str) -> None:
    (record,) = records_of(gzipped(page_record(1, WARC_Target_URI=raw)))
    assert record.url == url


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
        b"HTTP/1.1 200 OK\nContent-Type: text/html\n\n",
        b"HTTP/1.1 200 OK\r\nno header\r\nX: \xff\r\n: y\r\nContent-Type: text/html\r\n\r\n",
        b"HTTP/2 200\r\nX: " + b"x" * 100_000 + b"\r\ncontent-type:text/html\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Type: text/plain\r\n\r\n",
    ],
    ids=["good", "line feeds", "odd lines", "long", "twice"],
)
def test_odd_heads_of_answers_are_read(head: bytes) -> None:
    (record,) = records_of(gzipped(warc_record(head + b"body")))
    assert (record.status, record.content_type, record.body) == (200, "text/html", b"body")
    assert (record.head, record.length) == (head, 4)
    assert record.digest_state is Digest.OK


@pytest.mark.parametrize("block", [b"<html>no head", b"", b"HTTP/1.1 200 OK\r\n" + b"x" * 300_000])
def test_what_is_no_answer_is_a_body_without_a_status(block: bytes) -> None:
    (record,) = records_of(gzipped(warc_record(block)))
    assert (record.status, record.head, record.body) == (0, b"", block)


def test_an_answer_without_a_body_is_a_head() -> None:
    (record,) = records_of(gzipped(warc_record(b"HTTP/1.1 204 No Content\r\nServer: x")))
    assert (record.status, record.body, record.length) == (204, b"", 0)


@ANY_PACK
def test_a_long_body_is_cut_and_its_digest_still_looked_at(pack: Pack) -> None:
    answer = http_answer(b"x" * 3_000_000)
    data = pack(warc_record(answer)) + pack(page_record(2))

    long, after = records_of(data, max_body=1000)

    assert (len(long.body), long.length, long.is_truncated) == (1000, 3_000_000, True)
    assert long.digest_state is Digest.OK
    assert (after.id, after.is_truncated) == (record_id(2), False)
    (wrong,) = records_of(pack(warc_record(answer, WARC_Block_Digest=sha1(b""))), max_body=1000)
    assert wrong.digest_state is Digest.BAD


def test_what_the_crawler_had_cut_is_truncated() -> None:
    (record,) = records_of(gzipped(page_record(1, WARC_Truncated="length")))
    assert record.is_truncated


def test_a_wrong_digest_is_told_and_the_record_kept() -> None:
    archive = Archive.of([page_record(1), page_record(2, WARC_Block_Digest=sha1(b"else"))])
    assert [record.digest_state for record in records_of(archive.data)] == [
        Digest.OK,
        Digest.BAD,
    ]


@pytest.mark.parametrize("pack", [gzipped, zstandard_packed])
def test_a_file_that_was_packed_as_a_whole_goes_on_record_by_record(pack: Pack) -> None:
    data = pack(b"".join([request_record(9), *(page_record(n, 2000) for n in range(5))]))

    records = records_of(data)

    assert [record.id for record in records] == [record_id(number) for number in range(5)]
    assert [record.at for record in records] == [Position(0, number) for number in range(5)]
    assert records[-1].after == Position(len(data))
    for number, record in enumerate(records[:-1]):
        rest = records_of(data, record.after)
        assert [found.id for found in rest] == [record_id(n) for n in range(number + 1, 5)]


@pytest.mark.parametrize("is_packed", [False, True])
def test_zstd_files_may_have_a_dictionary(is_packed: bool) -> None:
    pages = [page_record(number) for number in range(200)]
    dictionary = zstandard.train_dictionary(2000, list(pages))
    compressor = zstandard.ZstdCompressor(dict_data=dictionary)
    raw = dictionary.as_bytes()
    content = zstandard_packed(raw) if is_packed else raw
    first = b"\x5d\x2a\x4d\x18" + len(content).to_bytes(4, "little") + content
    index = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"end"
    archive = Archive.of(pages[:5], compressor.compress)

    found = records_of(first + archive.data + index)

    assert [record.id for record in found] == [record_id(number) for number in range(5)]
    again = records_of(first + archive.data + index, found[2].after)
    assert [record.id for record in again] == [record_id(3), record_id(4)]


# It leaves its temporary files to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_what_another_tool_has_written_is_read() -> None:
    file = io.BytesIO()
    writer = WARCWriter(file, gzip=True)
    for number in range(3):
        headers = StatusAndHeaders("200 OK", [("Content-Type", "text/html")], protocol="HTTP/1.1")
        writer.write_record(
            writer.create_warc_record(
                f"http://example.com/{number}",
                "response",
                payload=io.BytesIO(page(number)),
                http_headers=headers,
            )
        )
    records = records_of(file.getvalue())
    assert [record.body for record in records] == [page(number) for number in range(3)]
    assert {record.digest_state for record in records} == {Digest.OK}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<!doctype html><title>404</title>",
        gzip.compress(b"filedesc://x.arc 0.0.0.0 20080430204825 text/plain 200\n", mtime=0),
        bytes(range(256)) * 1000,
    ],
    ids=["empty", "HTML", "ARC", "bytes"],
)
def test_what_is_no_archive_is_refused(data: bytes) -> None:
    with pytest.raises(NotAnArchive):
        items_of(data)


def test_memory_does_not_follow_the_length_of_a_record() -> None:
    length = 100_000_000
    record = warc_record(http_answer(bytes(length)), WARC_Block_Digest="")
    data = gzipped(record)
    del record
    tracemalloc.start()

    (found,) = records_of(data, max_body=1000)

    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (len(found.body), found.length) == (1000, length)
    assert most < 10_000_000
