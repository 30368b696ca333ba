"""An answer of HTTP/1, byte by byte: what is kept, where it is stopped, whether the connection is
good for another."""

import gc
import gzip
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.worker.net.fetcher import TemporaryFetchError
from manyhands.worker.net.http1 import MAX_HEAD_BYTES, MAX_HEADERS, Exchange

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
PAGE = HEAD + b"Content-Length: 5\r\n\r\nhello"
PIECES = [
    *(b"HTTP/1.1 200 OK\r\n", b"\r\n", b"5\r\nhello\r\n", b"0\r\n\r\n", b"\x00", b"a: b\r\n"),
    *(b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Content-Encoding: br\r\n"),
]


def exchange(
    wants_body: bool = True, max_bytes: int = 1000, keeps_unwanted: bool = False
) -> Exchange:
    return Exchange(
        lambda _status, _type: wants_body, max_bytes, lambda: None, keeps_unwanted=keeps_unwanted
    )


def fed(data: bytes, chunk: int = 10**6, **options: object) -> Exchange:
    one = exchange(**options)  # type: ignore[arg-type]
    for start in range(0, len(data), chunk):
        one.feed(data[start : start + chunk])
    return one


@pytest.mark.parametrize("chunk", [1, 7, 10**6])
def test_an_answer_is_the_same_however_it_is_cut(chunk):
    one = fed(PAGE, chunk)
    assert (one.is_done, one.failure, one.status) == (True, None, 200)
    assert (one.body.data, one.header(b"content-type")) == (b"hello", "text/html")
    assert one.is_reusable


@pytest.mark.parametrize("chunk", [1, 7, 10**6])
def test_the_head_is_kept_as_it_came(chunk):
    head = b"HTTP/1.0 203 Odd  reason\r\nX-Twice: a\r\nx-twice: b\xff\r\nContent-Length: 0\r\n\r\n"
    assert fed(head, chunk).head == head


def test_the_head_is_that_of_the_final_answer():
    interim = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    assert fed(interim + PAGE).head + b"hello" == PAGE


def test_a_server_that_wants_to_close_is_taken_at_its_word():
    assert not fed(PAGE.replace(b"Content-L", b"Connection: close\r\nContent-L")).is_reusable
    assert not fed(PAGE.replace(b"HTTP/1.1", b"HTTP/1.0")).is_reusable


def test_bytes_behind_the_end_make_the_connection_useless():
    one = fed(PAGE + b"HTTP/1.1 200 OK\r\n")
    assert (one.body.data, one.is_reusable) == (b"hello", False)


def test_bytes_that_come_after_the_end_make_it_useless_too():
    one = fed(PAGE)
    one.feed(b"more")
    assert (one.body.data, one.is_reusable) == (b"hello", False)


@pytest.mark.parametrize("answer", [PAGE, PAGE + b"more", b"garbage", HEAD + b"Upgrade: x\r\n\r\n"])
def test_an_answer_that_is_done_leaves_nothing_to_the_garbage_collector(answer):
    def wish(_status: int, _content_type: str) -> bool:
        return True

    kept = weakref.ref(wish)
    gc.disable()
    try:
        one = Exchange(wish, 1000, lambda: None)
        one.feed(answer)
        one.ended()
        del one, wish
        assert kept() is None
    finally:
        gc.enable()


def test_a_body_without_length_ends_with_the_connection():
    one = fed(HEAD + b"\r\nhel")
    one.feed(b"lo")
    assert not one.is_done
    one.ended()
    assert (one.is_done, one.failure, one.body.data) == (True, None, b"hello")
    assert not one.is_reusable


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 100\r\n\r\nhalf", b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"]
)
def test_a_body_that_ends_too_early_is_no_answer(framing):
    one = fed(HEAD + framing)
    one.ended()
    assert one.failure is not None and one.failure.reason == "bad answer: body cut short"


def test_hints_are_passed_over():
    one = fed(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 X\r\nLocation: /x\r\n\r\n" + PAGE)
    assert (one.status, one.body.data, one.header(b"location")) == (200, b"hello", None)


def test_another_protocol_is_no_answer():
    one = fed(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nxyz")
    assert one.failure is not None and not one.is_reusable


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 65537\r\n\r\n",
        b"Content-Length: 100\r\nConnection: close\r\n\r\n",
        b"\r\n",
    ],
)
def test_a_body_that_is_not_wanted_ends_with_the_head_if_it_is_long_or_the_last(framing):
    one = fed(HEAD + framing, wants_body=False)
    assert (one.is_done, one.failure, one.is_reusable) == (True, None, False)


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 0\r\n\r\n",
        b"Content-Length: 5\r\n\r\nhello",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"Content-Encoding: nonsense\r\nContent-Length: 5\r\n\r\nhello",
    ],
)
def test_a_short_body_that_is_not_wanted_is_dropped_and_keeps_the_connection(framing):
    one = fed(HEAD + framing, 7, wants_body=False)
    assert (one.is_done, one.failure, one.is_reusable) == (True, None, True)
    assert one.body.data == b""


PACKED = gzip.compress(b"hello", mtime=0)


@pytest.mark.parametrize(
    ("framing", "kept", "is_left_out"),
    [
        (b"Content-Length: 0\r\n\r\n", b"", False),
        (b"Content-Length: 0\r\nConnection: close\r\n\r\n", b"", False),
        (b"Content-Length: 5\r\n\r\nhello", b"hello", False),
        (
            b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s" % (len(PACKED), PACKED),
            b"hello",
            False,
        ),
        (b"Content-Encoding: nonsense\r\nContent-Length: 5\r\n\r\nhello", b"", True),
        (b"Content-Length: 5\r\nConnection: close\r\n\r\nhello", b"hello", False),
        (b"Content-Length: 70000\r\n\r\n", b"", True),
    ],
)
def test_for_archives_a_short_body_that_is_not_wanted_is_kept(framing, kept, is_left_out):
    one = fed(HEAD + framing, 7, wants_body=False, keeps_unwanted=True)
    assert (one.is_done, one.failure, one.is_unwanted) == (True, None, True)
    assert (one.body.data, one.is_left_out) == (kept, is_left_out)


def test_for_archives_a_body_up_to_the_end_of_the_connection_is_kept():
    one = fed(HEAD + b"\r\nhello", wants_body=False, keeps_unwanted=True)
    one.ended()
    assert (one.failure, one.body.data, one.is_left_out) == (None, b"hello", False)
    long = fed(HEAD + b"\r\n" + bytes(70_000), 5000, wants_body=False, keeps_unwanted=True)
    assert (len(long.body.data), long.is_left_out) == (64 * 1024, True)


def test_a_body_that_is_not_wanted_and_goes_on_and_on_is_cut_off():
    chunk = b"1000\r\n" + bytes(0x1000) + b"\r\n"
    one = fed(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + 20 * chunk, 1000, wants_body=False)
    assert (one.is_done, one.failure, one.is_reusable) == (True, None, False)
    assert one.body.taken <= 64 * 1024 + 1000


@pytest.mark.parametrize("trouble", ["closed", "time-out", "malformed", "too little"])
def test_what_goes_wrong_in_a_body_that_is_not_wanted_does_not_cost_the_answer(trouble):
    one = fed(HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhe", wants_body=False)
    assert not one.is_done
    if trouble == "closed":
        one.ended()
    elif trouble == "time-out":
        one.fail(TemporaryFetchError("too slow"))
    elif trouble == "malformed":
        one.feed(b"llonot a chunk")
    else:
        one.feed(b"llo\r\n" + 70_000 * b"1;x=y\r\nz\r\n")
    assert (one.is_done, one.failure, one.status, one.is_reusable) == (True, None, 200, False)


def test_a_long_body_is_stopped_at_its_limit():
    one = fed(HEAD + b"Content-Length: 5000\r\n\r\n" + bytes(2000), 100, max_bytes=1000)
    assert (one.is_done, len(one.body.data), one.body.is_truncated) == (True, 1000, True)
    assert not one.is_reusable


def test_a_compressed_body_is_unpacked_as_it_comes():
    packed = gzip.compress(b"<p>" * 100)
    head = HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    one = fed(head + packed, 3)
    assert (one.body.data, one.body.taken) == (b"<p>" * 100, len(packed))


@pytest.mark.parametrize("chunk", [1000, 10**7])
@pytest.mark.parametrize(
    "headers",
    [
        b"X: " + b"x" * (MAX_HEAD_BYTES + 1),
        b"x" * (MAX_HEAD_BYTES + 1) + b": y",
        b"\r\n".join(b"X-%d: y" % number for number in range(MAX_HEADERS + 1)),
        b"\r\n".join(b"X-%d: %s" % (number, b"y" * 4000) for number in range(20)),
    ],
    ids=["long value", "long name", "many", "many bytes"],
)
def test_headers_have_a_limit(headers, chunk):
    one = fed(HEAD + headers + b"\r\n\r\n", chunk)
    assert one.failure is not None and one.failure.reason == "headers too large"


def test_the_end_is_told_once():
    told: list[None] = []
    one = Exchange(lambda _status, _type: True, 1000, lambda: told.append(None))
    one.feed(PAGE)
    one.feed(b"more")
    one.ended()
    assert len(told) == 1


@given(st.binary(max_size=200), st.integers(1, 50))
def test_any_bytes_are_an_answer_or_have_a_reason(data, chunk):
    one = fed(data, chunk)
    one.ended()
    assert one.is_done
    assert one.failure is None or one.failure.reason


@given(
    st.lists(
        st.sampled_from(PIECES),
        max_size=12,
    ),
    st.integers(1, 50),
)
def test_pieces_of_answers_in_any_order_are_an_answer_or_have_a_reason(pieces, chunk):
    one = fed(b"HTTP/1.1 200 OK\r\n" + b"".join(pieces), chunk)
    one.ended()
    assert one.is_done
    assert len(one.body.data) <= 1000


CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("chunk", [1000, 10**7])
@pytest.mark.parametrize(
    "after_the_head",
    [
        b"5\r\nhello\r\n0\r\na: " + b"v" * (2 * MAX_HEAD_BYTES),
        b"5\r\nhello\r\n0\r\n" + b"n" * (2 * MAX_HEAD_BYTES),
        b"5\r\nhello\r\n0\r\n" + b"a: b\r\n" * MAX_HEAD_BYTES,
        b"5;" + b"e" * (2 * MAX_HEAD_BYTES),
        b"5\r\nhello\r\n0000" + b"0" * (2 * MAX_HEAD_BYTES),
        b"1\r\nx\r\n" * MAX_HEAD_BYTES,
    ],
    ids=["one value", "one name", "many", "extension", "zeros", "tiny chunks"],
)
def test_what_is_no_body_has_a_limit_after_the_head_too(after_the_head, chunk):
    one = fed(CHUNKED + after_the_head, chunk, max_bytes=10**6)
    assert one.failure is not None
    assert one.failure.reason == "bad answer: too much that is no body"
    assert not one.is_reusable


def test_what_is_body_earns_what_is_around_it():
    one = fed(CHUNKED + b"5\r\nhello\r\n" * MAX_HEAD_BYTES + b"0\r\n\r\n", max_bytes=10**6)
    assert (one.failure, one.body.data) == (None, b"hello" * MAX_HEAD_BYTES)


def test_a_long_body_earns_no_long_trailer():
    body = b"%x\r\n%s\r\n0\r\na: " % (500_000, bytes(500_000))
    one = fed(CHUNKED + body + b"v" * (2 * MAX_HEAD_BYTES), 1000, max_bytes=10**6)
    assert one.failure is not None


@pytest.mark.parametrize("chunk", [1, 7, 10**6])
def test_trailers_are_no_headers(chunk):
    trailers = b"X-Robots-Tag: noindex\r\nLocation: /x\r\n\r\n"
    one = fed(CHUNKED + b"5\r\nhello\r\n0\r\n" + trailers, chunk)
    assert (one.failure, one.body.data, one.is_reusable) == (None, b"hello", True)
    assert (one.text(b"x-robots-tag"), one.header(b"location")) == ("", None)
    assert one.head == CHUNKED


def test_the_parser_never_holds_more_of_a_value_than_the_head_may_have(monkeypatch):
    longest = 0
    one = exchange()
    feed = one._feed

    def watched(data: bytes) -> None:
        nonlocal longest
        if not one.is_done:
            longest = max(longest, len(data))
        feed(data)

    monkeypatch.setattr(Exchange, "_feed", lambda _self, data: watched(data))
    one.feed(HEAD + b"a: b" + b"\n x" * 100_000)
    assert one.failure is not None
    assert longest <= MAX_HEAD_BYTES
