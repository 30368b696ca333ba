"""Faktory's wire format, pure: encoders for every verb and a parser of answers.

The server answers in a subset of RESP: `+text`, `-CODE text`, `$n` bulk, `$-1` nil, `:n`.
Commands are single lines; JSON escapes line ends, so a payload cannot break the framing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from manyhands.shared.errors import ProtocolError, ServerError

CRLF: Final = b"\r\n"
OK: Final = "OK"
MAX_LINE_BYTES: Final = 64 * 1024
MAX_DIGITS: Final = 20
DEFAULT_MAX_BULK_BYTES: Final = 64 * 1024 * 1024

# What the server takes of a FAIL; it cuts by bytes, which may split a character, so we cut first.
MAX_ERROR_TYPE_BYTES: Final = 100
MAX_ERROR_MESSAGE_BYTES: Final = 1000
MAX_BACKTRACE_LINES: Final = 50

_PLUS, _MINUS, _DOLLAR, _COLON = b"+-$:"
_OK_LINE = b"+OK" + CRLF


@dataclass(slots=True, frozen=True)
class ErrorReply:
    """`-CODE text`. A value, not an exception: it belongs to one command of many in flight."""

    code: str
    text: str

    def is_refusal(self) -> bool:
        """The server closes this connection now, and did not run the command it answers."""
        return self.text.startswith(("too many connections", "shutdown in progress"))

    def to_error(self) -> ServerError:
        return ServerError(self.code, self.text)


Reply = bytes | str | int | ErrorReply | None


class ReplyParser:
    """Bytes in, whole answers out. State: the unparsed rest and how many bytes it waits for."""

    def __init__(self, max_bulk_bytes: int = DEFAULT_MAX_BULK_BYTES) -> None:
        self._max_bulk_bytes = max_bulk_bytes
        self._chunks: list[bytes] = []
        self._held_bytes = 0
        self._needed_bytes = 0

    def feed(self, data: bytes) -> list[Reply]:
        """Take what the socket gave; return the answers that are complete with it."""
        if data == _OK_LINE and not self._chunks:
            return [OK]  # an ACK's, by itself: every other answer of a busy worker
        if self._chunks:
            # Joined only once enough is there: a large bulk in small pieces stays linear.
            self._chunks.append(data)
            self._held_bytes += len(data)
            if self._held_bytes < self._needed_bytes:
                return []
            data = b"".join(self._chunks)
            self._chunks.clear()
        replies, rest_at = self._parse(data)
        if rest_at < len(data):
            self._chunks.append(data[rest_at:])
            self._held_bytes = len(data) - rest_at
        return replies

    def _parse(self, data: bytes) -> tuple[list[Reply], int]:
        replies: list[Reply] = []
        position, end = 0, len(data)
        while position < end:
            line_end = data.find(CRLF, position)
            if line_end < 0:
                self._needed_bytes = 0
                line_end = end  # of as much as there is of it
            if line_end - position > MAX_LINE_BYTES:
                raise ProtocolError(f"a line of over {MAX_LINE_BYTES} bytes")
            if line_end == end:
                break
            kind = data[position]
            if kind == _DOLLAR:
                size = self._bulk_size(data[position + 1 : line_end])
                if size < 0:
                    replies.append(None)
                    position = line_end + 2
                    continue
                body_at = line_end + 2
                body_end = body_at + size
                if body_end + 2 > end:
                    self._needed_bytes = body_end + 2 - position
                    break
                if data[body_end : body_end + 2] != CRLF:
                    raise ProtocolError("a bulk answer does not end where its length says")
                replies.append(data[body_at:body_end])
                position = body_end + 2
            else:
                replies.append(_parse_line(kind, data[position + 1 : line_end]))
                position = line_end + 2
        return replies, position

    def _bulk_size(self, digits: bytes) -> int:
        size = _parse_int(digits)
        if size > self._max_bulk_bytes:
            raise ProtocolError(f"a bulk answer of {size} bytes (limit {self._max_bulk_bytes})")
        if size < -1:
            raise ProtocolError(f"a bulk answer of length {size}")
        return size


def _parse_line(kind: int, line: bytes) -> Reply:
    if kind == _PLUS:
        return OK if line == b"OK" else line.decode("utf-8", "replace")
    if kind == _MINUS:
        code, _, text = line.decode("utf-8", "replace").partition(" ")
        return ErrorReply(code, text)
    if kind == _COLON:
        return _parse_int(line)
    raise ProtocolError(f"an answer starts with {bytes([kind])!r}")


def _parse_int(digits: bytes) -> int:
    # int() alone would take b" 1_0 " too, and refuse thousands of digits in its own way.
    if len(digits) > MAX_DIGITS or not digits.removeprefix(b"-").isdigit():
        raise ProtocolError(f"{digits[:20]!r} is not a number")
    return int(digits)


def hello(fields: dict[str, Any]) -> bytes:
    return b"HELLO " + orjson.dumps(fields) + CRLF


def push(job: bytes) -> bytes:
    return b"PUSH " + job + CRLF


def push_bulk(jobs: Sequence[bytes]) -> bytes:
    return b"PUSHB [" + b",".join(jobs) + b"]" + CRLF


def fetch(queues: Iterable[str]) -> bytes:
    return b"FETCH " + " ".join(queues).encode() + CRLF


def ack(jid: str) -> bytes:
    if jid.isalnum() and jid.isascii():
        return b'ACK {"jid":"%b"}\r\n' % jid.encode()
    return b"ACK " + orjson.dumps({"jid": jid}) + CRLF


def fail(jid: str, error_type: str, message: str, backtrace: Sequence[str]) -> bytes:
    payload = {
        "jid": jid,
        "errtype": cut_to_bytes(error_type, MAX_ERROR_TYPE_BYTES),
        "message": cut_to_bytes(message, MAX_ERROR_MESSAGE_BYTES),
        "backtrace": [as_json_text(line) for line in backtrace[:MAX_BACKTRACE_LINES]],
    }
    return b"FAIL " + orjson.dumps(payload) + CRLF


def beat(wid: str, *, state: str | None = None, rss_kb: int = 0) -> bytes:
    payload: dict[str, Any] = {"wid": wid, "rss_kb": rss_kb}
    if state is not None:
        payload["current_state"] = state
    return b"BEAT " + orjson.dumps(payload) + CRLF


def held(wid: str, jids: Iterable[str]) -> bytes:
    """Our broker's: the connection of `wid` broke; these jobs arrived, and no others of it."""
    return b"HELD " + orjson.dumps({"wid": wid, "jids": list(jids)}) + CRLF


def info() -> bytes:
    return b"INFO" + CRLF


def flush() -> bytes:
    return b"FLUSH" + CRLF


def end() -> bytes:
    return b"END" + CRLF


def queue(action: str, names: Iterable[str]) -> bytes:
    return b"QUEUE " + " ".join((action, *names)).encode() + CRLF


def mutate(command: str, target: str, job_filter: dict[str, Any] | None) -> bytes:
    payload: dict[str, Any] = {"cmd": command, "target": target}
    if job_filter is not None:
        payload["filter"] = job_filter
    # The server splits this line at every space; in compact JSON they stand inside strings only.
    return b"MUTATE " + orjson.dumps(payload).replace(b" ", b"\\u0020") + CRLF


def as_json_text(text: str) -> str:
    """Lone surrogates (from os.fsdecode and the like) are not UTF-8: show them escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def cut_to_bytes(text: str, limit_bytes: int) -> str:
    encoded = as_json_text(text).encode()
    return encoded[:limit_bytes].decode("utf-8", "ignore")
