"""Chunks of archives: what becomes a page, and where the next chunk begins."""

import gzip

import orjson
import pytest

import manyhands.worker.warc.chunks
from manyhands.shared.crawl.messages import NO_CRAWL
from manyhands.worker.pages.bodies import unpack
from manyhands.worker.warc.chunks import Chunk, ChunkReader
from manyhands.worker.warc.reading import Position
from tests.support.archives import (
    DATE,
    Archive,
    MemoryStream,
    gzipped,
    http_answer,
    page,
    page_record,
    record_id,
    sha1,
    warc_record,
)

SOURCE = "s3://bucket/a.warc.gz"
URI = "http://example.com/a"


def reader() -> ChunkReader:
    return ChunkReader(SOURCE, max_bytes=50_000, truncate_bytes=10_000)


def chunk_of(*records: bytes) -> Chunk:
    return reader().read(MemoryStream(Archive.of(records).data), Position())


def answer_record(answer: bytes, **headers: str | bytes) -> bytes:
    default: dict[str, str | bytes] = {"WARC_Target_URI": URI}
    return warc_record(answer, headers=default | headers)


def test_a_page_is_ready_to_be_parsed() -> None:
    answer = http_answer(page(1), X_Robots_Tag="noindex")
    chunk = chunk_of(warc_record(answer, number=1, WARC_Target_URI=b"HTTP://Example.com:80/\xfc"))

    (found,) = chunk.pages

    assert unpack(found.body) == page(1)
    assert found[:11] == (
        *(record_id(1), NO_CRAWL, "", "http://example.com/%FC", 0, 200, "text/html", "noindex"),
        *(False, False, DATE),
    )
    assert (found.cuts, found.fields, found.arrival) == ((), ("default",), None)
    assert (chunk.counts, chunk.next, chunk.damages) == ({"page": 1}, None, [])


def test_a_record_without_an_id_is_known_by_its_place() -> None:
    first, second = page_record(1, WARC_Record_ID=""), page_record(2, WARC_Record_ID="")
    chunk = chunk_of(first, second)
    assert [found.visit for found in chunk.pages] == [
        f"{SOURCE}#0.0",
        f"{SOURCE}#{len(gzipped(first))}.0",
    ]
    whole = reader().read(MemoryStream(gzipped(first + second)), Position())
    assert [found.visit for found in whole.pages] == [f"{SOURCE}#0.0", f"{SOURCE}#0.1"]


def test_only_html_with_a_good_status_and_url_becomes_a_page() -> None:
    wat = {
        "Response-Message": {"Status": "200"},
        "Headers": {"Content-Type": "text/html"},
        "HTML-Metadata": {"Head": {"Title": "T"}, "Links": []},
    }
    told = orjson.dumps({"Envelope": {"Payload-Metadata": {"HTTP-Response-Metadata": wat}}})
    chunk = chunk_of(
        answer_record(http_answer(page(1))),
        answer_record(http_answer(page(1), 203, "application/xhtml+xml")),
        answer_record(http_answer(page(1), 404)),
        answer_record(http_answer(page(1), 301)),
        answer_record(http_answer(b"\x89PNG", 200, "image/png")),
        answer_record(http_answer(page(1)), WARC_Target_URI="ftp://example.com/"),
        answer_record(http_answer(page(1)), WARC_Target_URI=""),
        warc_record(b"text", kind="conversion", content_type="text/plain"),
        warc_record(told, kind="metadata", content_type="application/json", WARC_Target_URI=URI),
        warc_record(b"{}", kind="metadata", content_type="application/json"),
    )
    assert chunk.counts == {
        "page": 3,
        "other status": 2,
        "other type": 1,
        "bad URL": 2,
        "text": 1,
        "no page": 1,
    }
    assert len(chunk.pages) == 3
    assert b"<title>T</title>" in unpack(chunk.pages[2].body)


def test_a_page_is_unpacked_and_cut_for_the_parser() -> None:
    long = page(1, 20_000)
    packed = gzip.compress(long)
    answer = http_answer(
        b"%x\r\n%b\r\n0\r\n\r\n" % (len(packed), packed),
        Content_Encoding="gzip",
        Transfer_Encoding="chunked",
    )
    (found,) = chunk_of(answer_record(answer)).pages
    assert unpack(found.body) == long[:10_000]
    assert found.is_truncated


def test_damages_and_wrong_digests_are_told_with_their_places() -> None:
    archive = Archive.of([page_record(1), page_record(2), page_record(3)])
    wrong = gzipped(page_record(4, WARC_Block_Digest=sha1(b"")))
    data = bytearray(archive.data + wrong)
    data[archive.offsets[1] + 20] ^= 1

    chunk = reader().read(MemoryStream(bytes(data)), Position())

    assert [(damage.offset, damage.end) for damage in chunk.damages] == [
        (archive.offsets[1], archive.offsets[2])
    ]
    assert chunk.bad_digests == [len(archive.data)]
    # Kept although its digest is wrong.
    assert [found.visit for found in chunk.pages] == [record_id(n) for n in (1, 3, 4)]


def chunks_of(chunked: ChunkReader, data: bytes) -> list[Chunk]:
    chunks = [chunked.read(MemoryStream(data), Position())]
    while (after := chunks[-1].next) is not None:
        chunks.append(chunked.read(MemoryStream(data), after))
    return chunks


@pytest.mark.parametrize(
    ("limit", "size"), [("CHUNK_BYTES", 10_000), ("PAGES_BYTES", 5_000), ("CHUNK_BYTES", 1)]
)
def test_chunk_by_chunk_every_page_comes_once(
    monkeypatch: pytest.MonkeyPatch, limit: str, size: int
) -> None:
    monkeypatch.setattr(manyhands.worker.warc.chunks, limit, size)
    archive = Archive.of_pages(50, size=2000)
    chunks = chunks_of(reader(), archive.data)
    assert len(chunks) > 5
    visits = [found.visit for chunk in chunks for found in chunk.pages]
    assert visits == [record_id(number) for number in range(50)]


def test_a_file_that_was_packed_as_a_whole_is_read_in_chunks_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(manyhands.worker.warc.chunks, "PAGES_BYTES", 5_000)
    data = gzipped(b"".join(page_record(number, 2000) for number in range(20)))
    chunks = chunks_of(reader(), data)
    assert len(chunks) > 3
    visits = [found.visit for chunk in chunks for found in chunk.pages]
    assert visits == [record_id(number) for number in range(20)]


def test_a_chunk_is_the_same_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manyhands.worker.warc.chunks, "PAGES_BYTES", 5_000)
    archive = Archive.of_pages(50, size=2000)
    chunked = reader()
    first, again = (chunked.read(MemoryStream(archive.data), Position()) for _ in range(2))
    assert first == again
