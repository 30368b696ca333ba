"""WARC files: damaged before they were packed, or after."""

import time
from concurrent.futures import ThreadPoolExecutor, wait

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from manyhands.worker.warc.chunks import ChunkReader
from manyhands.worker.warc.frames import NotAnArchive
from manyhands.worker.warc.reading import Position
from tests.fuzz.inputs import Pieces, damaged
from tests.fuzz.targets import Fault, InProcess
from tests.support.archives import PACKS, MemoryStream, http_answer, page_record, warc_record

MAX_BYTES = 1024 * 1024
TRUNCATE_BYTES = 100_000
WAT = (
    b'{"Envelope":{"WARC-Header-Metadata":{"WARC-Target-URI":"http://example.com/"},'
    b'"Payload-Metadata":{"HTTP-Response-Metadata":{"Response-Message":{"Status":"200"},'
    b'"Headers":{"Content-Type":"text/html"},"HTML-Metadata":{"Head":{"Title":"T"},'
    b'"Links":[{"path":"A@/href","url":"/x","text":"y"}]}}}}}'
)
RECORDS = (
    page_record(1),
    page_record(2, 3000),
    warc_record(
        http_answer(b"5\r\n<p>ab\r\n3;x=y\r\ncde\r\n0\r\n\r\n", Transfer_Encoding="chunked"),
        number=3,
        WARC_Target_URI="http://example.com/chunked",
    ),
    warc_record(
        http_answer(PACKS["gzip"](b"<title>packed</title>" * 20), Content_Encoding="gzip"),
        number=4,
        WARC_Target_URI="http://example.com/packed",
    ),
    warc_record(
        http_answer(b"<p>\r\n folded", status=301, Location="/x\r\n y", X_Robots_Tag="none"),
        number=5,
        WARC_Target_URI="<http://example.com/folded>",
        WARC_Truncated="length",
    ),
    warc_record(WAT, kind="metadata", content_type="application/json", number=6),
    warc_record(b"a text", kind="conversion", content_type="text/plain", number=7),
    warc_record(b"software: x\r\n", kind="warcinfo", content_type="application/warc-fields"),
)
PACKED = tuple(pack(record) for pack in PACKS.values() for record in RECORDS[:5])
WORDS = (
    *(b"WARC/1.0\r\n", b"WARC/", b"WARC-Type: response\r\n", b"Content-Length: ", b"HTTP/1.1 200"),
    *(b"Transfer-Encoding: chunked\r\n", b"Content-Encoding: br\r\n", b"\x1f\x8b\x08\x00"),
    *(
        b"\x28\xb5\x2f\xfd",
        b"\x5d\x2a\x4d\x18\xff\xff\xff\x7f",
        b"WARC-Target-URI: http://\xff/\r\n",
    ),
    *(b"sha1:AAAA", b"WARC-Payload-Digest: sha1:\r\n", b"\x50\x2a\x4d\x18\0\0\0\0", b"1;\r\n"),
)


@st.composite
def _archives(draw: DrawFn) -> Pieces:
    if draw(st.booleans()):
        pack = PACKS[draw(st.sampled_from(list(PACKS)))]
        records = draw(st.lists(damaged(RECORDS, WORDS, most_messages=2), min_size=1, max_size=3))
        data = b"".join(pack(record) for record in records)
    else:
        data = draw(damaged(PACKED, WORDS, most_messages=4, max_bytes=256 * 1024))
    # How much of it is read at a time.
    return [data, b"%d" % draw(st.sampled_from([1, 7, 100, 5000, 65536]))]


# Of a thread that reads: longer than any file of this size takes, whatever is in it.
MOST_S = 20.0
LOOK_S = 0.005


class Archives(InProcess):
    """They are read in a thread, and whom they keep waiting is the event loop beside it."""

    inputs = _archives()

    def run(self, pieces: Pieces) -> float:
        """The longest time for which the other thread could not go on."""
        longest_s = 0.0
        with ThreadPoolExecutor(1) as threads:
            began = looked = time.perf_counter()
            reading = threads.submit(self.call, pieces)
            while not reading.done():
                wait([reading], LOOK_S)
                looked, before = time.perf_counter(), looked
                longest_s = max(longest_s, looked - before)
            reading.result()
        if looked - began > MOST_S:
            raise Fault(f"it took {looked - began:.0f} s to read {len(pieces[0])} bytes")
        return longest_s

    def call(self, pieces: Pieces) -> None:
        data, piece = pieces
        reader = ChunkReader("fuzz", max_bytes=MAX_BYTES, truncate_bytes=TRUNCATE_BYTES)
        # A read of a byte at a time costs what it costs: only of short files.
        size = int(piece) if len(data) <= 100 * int(piece) else 65536
        try:
            chunk = reader.read(MemoryStream(data, size), Position())
        except NotAnArchive:
            return
        ends = [damage.end for damage in chunk.damages]
        if ends != sorted(ends) or any(end > len(data) for end in ends):
            raise Fault(f"damages end at {ends} of {len(data)} bytes")
