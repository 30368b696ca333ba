"""The wire format: any answers in any pieces, and the exact lines that we send."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhands.shared.errors import ProtocolError, ServerError
from manyhands.shared.faktory import codec
from manyhands.shared.faktory.codec import ErrorReply, Reply, ReplyParser

EVERY_KIND: list[tuple[bytes, Reply]] = [
    (b"+OK\r\n", "OK"),
    (b'+HI {"v":2}\r\n', 'HI {"v":2}'),
    (b"+\r\n", ""),
    (b"-ERR no such thing\r\n", ErrorReply("ERR", "no such thing")),
    (b"-NOTUNIQUE Job not unique\r\n", ErrorReply("NOTUNIQUE", "Job not unique")),
    (b"-SHUTDOWN\r\n", ErrorReply("SHUTDOWN", "")),
    (b"$-1\r\n", None),
    (b"$0\r\n\r\n", b""),
    (b"$5\r\na\r\nbc\r\n", b"a\r\nbc"),
    (b"$3\r\n+OK\r\n", b"+OK"),
    (b":0\r\n", 0),
    (b":-17\r\n", -17),
    (b":9000\r\n", 9000),
]
STREAM = b"".join(wire for wire, _ in EVERY_KIND)
ANSWERS = [reply for _, reply in EVERY_KIND]


def test_every_kind_of_answer_is_read():
    assert ReplyParser().feed(STREAM) == ANSWERS


@pytest.mark.parametrize("at", range(len(STREAM) + 1))
def test_answers_are_the_same_when_the_stream_is_split_at_any_byte(at):
    parser = ReplyParser()
    assert parser.feed(STREAM[:at]) + parser.feed(STREAM[at:]) == ANSWERS


def test_answers_are_the_same_when_bytes_come_one_by_one():
    parser = ReplyParser()
    assert [reply for byte in STREAM for reply in parser.feed(bytes([byte]))] == ANSWERS


line_text = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=30)


def simple(text: str) -> tuple[bytes, Reply]:
    return b"+" + text.encode() + b"\r\n", text


def bulk(body: bytes) -> tuple[bytes, Reply]:
    return b"$%d\r\n%s\r\n" % (len(body), body), body


def number(value: int) -> tuple[bytes, Reply]:
    return b":%d\r\n" % value, value


def error(parts: tuple[str, str]) -> tuple[bytes, Reply]:
    code, text = parts
    return f"-{code} {text}\r\n".encode(), ErrorReply(code, text)


answers = st.lists(
    st.one_of(
        line_text.map(simple),
        st.binary(max_size=300).map(bulk),
        st.integers(-(2**63), 2**63).map(number),
        st.tuples(st.sampled_from(["ERR", "NOTUNIQUE"]), line_text).map(error),
        st.just((b"$-1\r\n", None)),
    ),
    max_size=8,
)


@given(answers, st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_any_answers_in_any_pieces_come_out_as_they_went_in(expected, sizes):
    stream = b"".join(wire for wire, _ in expected)
    parser, got, at, turn = ReplyParser(), [], 0, 0
    while at < len(stream):
        size = sizes[turn % len(sizes)]
        got += parser.feed(stream[at : at + size])
        at, turn = at + size, turn + 1
    assert got == [reply for _, reply in expected]


def test_an_unfinished_answer_waits_for_its_rest():
    parser = ReplyParser()
    assert parser.feed(b"+OK\r\n$10\r\nabc") == ["OK"]
    assert parser.feed(b"") == []
    assert parser.feed(b"defghij\r\n+O") == [b"abcdefghij"]
    assert parser.feed(b"K\r\n") == ["OK"]


def test_a_large_bulk_in_one_byte_pieces_stays_whole():
    body = bytes(range(256)) * 600
    parser, got = ReplyParser(), []
    for byte in b"$%d\r\n%s\r\n+OK\r\n" % (len(body), body):
        got += parser.feed(bytes([byte]))
    assert got == [body, "OK"]


def test_text_that_is_not_utf_8_is_shown_rather_than_refused():
    assert ReplyParser().feed(b"-ERR \xff\r\n") == [ErrorReply("ERR", "�")]


@pytest.mark.parametrize(
    "garbage",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        b"SSH-2.0-OpenSSH\r\n",
        b"*1\r\n",
        b"\r\n",
        b"\x15\x03\x01\r\n",
        b"$abc\r\n",
        b"$-2\r\n",
        b"$ 1_0\r\n",
        b"$1_0\r\n",
        b"$+1\r\n",
        b"$--1\r\n",
        b"$\r\n",
        b"$-\r\n",
        b":\r\n",
        b":1.5\r\n",
        b":\xc2\xb2\r\n",
    ],
)
def test_what_is_no_answer_is_a_protocol_error(garbage):
    with pytest.raises(ProtocolError):
        ReplyParser().feed(garbage)


@pytest.mark.parametrize("digits", [b"1" * 5000, b"-" + b"9" * 6000])
def test_a_number_of_thousands_of_digits_is_a_protocol_error(digits):
    with pytest.raises(ProtocolError):
        ReplyParser().feed(b":" + digits + b"\r\n")
    with pytest.raises(ProtocolError):
        ReplyParser().feed(b"$" + digits + b"\r\n")


def test_a_bulk_that_does_not_end_where_it_says_is_a_protocol_error():
    with pytest.raises(ProtocolError):
        ReplyParser().feed(b"$3\r\nabcd\r\n")


def test_a_bulk_over_the_limit_is_refused_before_its_body_comes():
    with pytest.raises(ProtocolError, match="101 bytes"):
        ReplyParser(max_bulk_bytes=100).feed(b"$101\r\n")
    assert ReplyParser(max_bulk_bytes=100).feed(b"$100\r\n" + b"x" * 100 + b"\r\n") == [b"x" * 100]


def test_a_line_without_end_is_refused():
    parser = ReplyParser()
    parser.feed(b"+" + b"x" * (codec.MAX_LINE_BYTES - 1))
    with pytest.raises(ProtocolError):
        parser.feed(b"xx")


@pytest.mark.parametrize("piece", [1000, 10**6])
def test_an_over_long_line_is_refused_in_pieces_and_in_one(piece):
    line = b"+" + b"x" * (2 * codec.MAX_LINE_BYTES) + b"\r\n"
    parser = ReplyParser()
    with pytest.raises(ProtocolError):
        for at in range(0, len(line), piece):
            parser.feed(line[at : at + piece])


@pytest.mark.parametrize(
    ("text", "is_refusal"),
    [
        ("too many connections: 2001", True),
        ("shutdown in progress", True),
        ("unknown worker abc", False),
        ("Job not found", False),
    ],
)
def test_only_refused_connections_are_refusals(text, is_refusal):
    assert ErrorReply("ERR", text).is_refusal() is is_refusal


def test_an_error_answer_becomes_an_error_with_its_code():
    error = ErrorReply("NOTUNIQUE", "Job not unique").to_error()
    assert isinstance(error, ServerError)
    assert (error.code, error.text, str(error)) == (
        "NOTUNIQUE",
        "Job not unique",
        "NOTUNIQUE Job not unique",
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (codec.hello({"v": 2, "wid": "abc"}), b'HELLO {"v":2,"wid":"abc"}\r\n'),
        (codec.push(b'{"jid":"1"}'), b'PUSH {"jid":"1"}\r\n'),
        (codec.push_bulk([b"{}", b'{"a":1}']), b'PUSHB [{},{"a":1}]\r\n'),
        (codec.fetch(["critical", "default"]), b"FETCH critical default\r\n"),
        (codec.ack("12345678"), b'ACK {"jid":"12345678"}\r\n'),
        (
            codec.fail("12345678", "ValueError", "no", ["a", "b"]),
            b'FAIL {"jid":"12345678","errtype":"ValueError","message":"no",'
            b'"backtrace":["a","b"]}\r\n',
        ),
        (codec.beat("w1"), b'BEAT {"wid":"w1","rss_kb":0}\r\n'),
        (
            codec.beat("w1", state="quiet", rss_kb=7),
            b'BEAT {"wid":"w1","rss_kb":7,"current_state":"quiet"}\r\n',
        ),
        (codec.info(), b"INFO\r\n"),
        (codec.flush(), b"FLUSH\r\n"),
        (codec.end(), b"END\r\n"),
        (codec.queue("PAUSE", ["a", "b"]), b"QUEUE PAUSE a b\r\n"),
        (codec.queue("REMOVE", ["*"]), b"QUEUE REMOVE *\r\n"),
        (codec.mutate("clear", "dead", None), b'MUTATE {"cmd":"clear","target":"dead"}\r\n'),
        (
            codec.mutate("kill", "retries", {"jids": ["a"]}),
            b'MUTATE {"cmd":"kill","target":"retries","filter":{"jids":["a"]}}\r\n',
        ),
    ],
)
def test_each_verb_is_one_exact_line(line, expected):
    assert line == expected


json_text = st.text(st.characters(codec="utf-8"))


@given(st.lists(json_text), json_text, json_text)
def test_a_mutate_has_one_space_and_still_means_the_same(jids, jobtype, pattern):
    job_filter = {"jids": jids, "jobtype": jobtype, "regexp": pattern}
    line = codec.mutate("requeue", "scheduled", job_filter)
    verb, payload = line.removesuffix(b"\r\n").split(b" ")
    assert verb == b"MUTATE"
    assert orjson.loads(payload) == {
        "cmd": "requeue",
        "target": "scheduled",
        "filter": job_filter,
    }


def fail_fields(line: bytes) -> dict[str, object]:
    fields: dict[str, object] = orjson.loads(line.removeprefix(b"FAIL ").removesuffix(b"\r\n"))
    return fields


def test_a_fail_is_cut_to_what_the_server_takes():
    fields = fail_fields(codec.fail("12345678", "E" * 300, "m" * 3000, ["line"] * 80))
    assert fields["errtype"] == "E" * 100
    assert fields["message"] == "m" * 1000
    assert fields["backtrace"] == ["line"] * 50


@given(
    st.text(st.characters(min_codepoint=1), max_size=400),
    st.integers(0, 1000),
)
def test_a_cut_never_splits_a_character_nor_exceeds_the_limit(text, limit):
    cut = codec.cut_to_bytes(text, limit)
    whole = codec.as_json_text(text)
    assert whole.startswith(cut)
    assert len(cut.encode()) <= limit
    next_character = whole[len(cut) : len(cut) + 1]
    assert not next_character or len((cut + next_character).encode()) > limit


def test_lone_surrogates_in_an_error_do_not_stop_the_fail():
    fields = fail_fields(codec.fail("12345678", "E\udcff", "name \udc80", ["at \ud800"]))
    assert fields["errtype"] == "E\\udcff"
    assert fields["message"] == "name \\udc80"
    assert fields["backtrace"] == ["at \\ud800"]


@given(st.text(), st.text(), st.lists(st.text(), max_size=5))
def test_a_line_end_inside_a_payload_is_never_raw(kind, message, backtrace):
    line = codec.fail("1234\r\n5678", kind + "\n", "\r\n" + message, [*backtrace, "a\nb"])
    assert line.endswith(b"\r\n")
    assert b"\n" not in line[:-2]
    assert b"\r" not in line[:-2]


def test_a_line_end_in_a_jid_or_a_pattern_is_escaped():
    for line in (codec.ack("a\nb"), codec.beat("w\r\n"), codec.mutate("kill", "dead", {"r": "\n"})):
        assert b"\n" not in line[:-2]
