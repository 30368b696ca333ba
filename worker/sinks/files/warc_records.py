"""A captured answer → the bytes of its WARC records. Pure.

An answer is a `request`, a `response` and a `metadata` record, each compressed by itself.
Everything in them follows from the capture: the same one becomes the same bytes again.

Nothing that a server sends can end one of our headers: URLs and ids are escaped, and the head of an
answer is cleaned up before it goes into the block.
"""

import hashlib
import re
import uuid
from collections.abc import Callable
from datetime import datetime

from manyhands.shared.jobs import rfc3339
from manyhands.worker.records import Capture

# One record, as it is written to the file.
Pack = Callable[[bytes], bytes]

# Of the head of an answer, in bytes. FastWARC gives up the whole file at one of 32 KB.
LONGEST_HEAD = 24 * 1024
_LONGEST_STATUS_LINE = 1024
# Of a URL with all that had to be escaped; that of a page has 4096 characters at the most.
_LONGEST_TARGET = 16 * 1024
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "manyhands:warc").bytes
_BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_BASE32_PAIRS = [first + second for first in _BASE32 for second in _BASE32]
_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z")
_ADDRESS = re.compile(r"[0-9a-fA-F:.]{2,45}")
_UNSAFE = re.compile(r"[^\x21-\x7e]")
_NO_TEXT = re.compile(r"[^\x20-\x7e]")
_STATUS_LINE = rb"HTTP/1\.[01] \d{3}[^\r\n\0]*"
_REQUEST_LINE = rb"[A-Z]{3,7} [^\r\n\0]+"
# A token, and a value in which no line ends.
_HEADERS = rb"\r\n(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[^\r\n\0]*\r\n)*\r\n"
_WELL_FORMED_RESPONSE = re.compile(_STATUS_LINE + _HEADERS)
_WELL_FORMED_REQUEST = re.compile(_REQUEST_LINE + _HEADERS)
_ODD_STATUS_LINE = re.compile(rb"[!-~]{1,20} +(\d{3}(?:[^\d].*)?)")
_LINE_END = re.compile(rb"\r\n|\n|\r")
# They describe the body as sent. Ours is decoded: readers would decode it once more.
_ABOUT_TRANSFER = re.compile(
    rb"^(?=(?:content-encoding|transfer-encoding|content-length)[ \t\v\f]*:)", re.I | re.M
)


def capture_records(capture: Capture, pack: Pack) -> bytes:
    """Raises ValueError for what no WARC file can hold."""
    url = _target(capture.url)
    date = _date(capture.fetched_at)
    request_id = record_id(capture.id, "request")
    response_id = record_id(capture.id, "response")
    about = f"WARC-Date: {date}\r\nWARC-Target-URI: {url}\r\n"
    from_where = about
    if _ADDRESS.fullmatch(capture.address):
        from_where += f"WARC-IP-Address: {capture.address}\r\n"

    request = _record(
        f"WARC-Type: request\r\nWARC-Record-ID: {request_id}\r\n{from_where}"
        f"WARC-Concurrent-To: {response_id}\r\n"
        "Content-Type: application/http; msgtype=request\r\n",
        request_block(capture.request),
    )
    truncated = ""
    if capture.is_truncated or capture.is_left_out:
        # By the standard: it was too long, or there was another reason.
        why = "length" if capture.is_truncated else "unspecified"
        truncated = f"WARC-Truncated: {why}\r\n"
    response = _record(
        f"WARC-Type: response\r\nWARC-Record-ID: {response_id}\r\n{from_where}"
        f"WARC-Concurrent-To: {request_id}\r\n{truncated}"
        f"WARC-Payload-Digest: {_digest(capture.body)}\r\n"
        "Content-Type: application/http; msgtype=response\r\n",
        response_head(capture.head, len(capture.body)),
        capture.body,
    )
    metadata = _record(
        f"WARC-Type: metadata\r\nWARC-Record-ID: {record_id(capture.id, 'metadata')}\r\n{about}"
        f"WARC-Concurrent-To: {response_id}\r\nContent-Type: application/warc-fields\r\n",
        _fields(id=capture.id, crawl=capture.crawl, depth=capture.depth),
    )
    return pack(request) + pack(response) + pack(metadata)


def warcinfo_record(name: str, date: str, pack: Pack) -> bytes:
    """What a file begins with. `date` is RFC 3339 in UTC."""
    fields = _fields(
        software="manyhands",
        format="WARC File Format 1.1",
        conformsTo="http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
    )
    return pack(
        _record(
            f"WARC-Type: warcinfo\r\nWARC-Record-ID: {record_id(name, 'warcinfo')}\r\n"
            f"WARC-Date: {_date(date)}\r\nWARC-Filename: {_escaped(name)}\r\n"
            "Content-Type: application/warc-fields\r\n",
            fields,
        )
    )


def record_id(capture_id: str, kind: str) -> str:
    """A UUID of version 5. The standard library spends most of the time on its object."""
    name = f"{kind}:{capture_id}".encode("utf-8", "surrogatepass")
    text = hashlib.sha1(_NAMESPACE + name, usedforsecurity=False).hexdigest()
    variant = "89ab"[int(text[16], 16) & 3]
    return f"<urn:uuid:{text[:8]}-{text[8:12]}-5{text[13:16]}-{variant}{text[17:20]}-{text[20:32]}>"


def request_block(request: bytes) -> bytes:
    if _WELL_FORMED_REQUEST.fullmatch(request):
        return request
    lines = _lines(request)
    if not lines or not re.fullmatch(_REQUEST_LINE, lines[0]):
        raise ValueError("its request has no request line")
    return b"\r\n".join([*lines, b"", b""])


def response_head(head: bytes, length: int) -> bytes:
    """With the length of the body as stored; headers about the body as sent are kept under names
    that readers ignore, the same as Common Crawl's."""
    if not _WELL_FORMED_RESPONSE.fullmatch(head):
        head = _repaired_head(head)
    renamed = _ABOUT_TRANSFER.sub(b"X-Crawl-", head[:-2])
    if len(renamed) > LONGEST_HEAD:
        renamed = _shortened(renamed)
    return renamed + b"Content-Length: %d\r\n\r\n" % length


def _shortened(head: bytes) -> bytes:
    """Without the headers that are too long, and those that are too many."""
    status, *headers = head.removesuffix(b"\r\n").split(b"\r\n")
    kept = [status[:_LONGEST_STATUS_LINE]]
    room = LONGEST_HEAD - _LONGEST_STATUS_LINE
    for header in headers:
        if len(header) + 2 <= room:
            kept.append(header)
            room -= len(header) + 2
    left_out = len(headers) + 1 - len(kept)
    return b"\r\n".join([*kept, b"X-Crawl-Headers-Left-Out: %d" % left_out, b""])


def _repaired_head(head: bytes) -> bytes:
    lines = _lines(head)
    status = lines[0] if lines else b""
    if not re.fullmatch(_STATUS_LINE, status):
        # Another version, or none that anybody knows.
        odd = _ODD_STATUS_LINE.fullmatch(status)
        if odd is None:
            raise ValueError("the head of its answer has no status line")
        lines[0] = b"HTTP/1.1 " + odd[1]
    return b"\r\n".join([*lines, b"", b""])


def _lines(head: bytes) -> list[bytes]:
    """Without those that a reader could take for the end of the head, continued ones in one."""
    lines: list[bytes] = []
    for line in _LINE_END.split(head.replace(b"\0", b" ")):
        text = _decoded(line)
        if not text.strip():
            continue
        if len(lines) > 1 and text[0].isspace():
            lines[-1] += b" " + line.lstrip()
        else:
            lines.append(line.lstrip())
    return lines


def _decoded(line: bytes) -> str:
    """As readers do it."""
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")


def _record(headers: str, head: bytes, body: bytes = b"") -> bytes:
    digest = hashlib.sha1(head, usedforsecurity=False)
    if body:
        digest.update(body)
    lines = (
        f"WARC/1.1\r\n{headers}WARC-Block-Digest: sha1:{_base32(digest.digest())}\r\n"
        f"Content-Length: {len(head) + len(body)}\r\n\r\n"
    )
    return b"".join((lines.encode(), head, body, b"\r\n\r\n"))


def _digest(data: bytes) -> str:
    return f"sha1:{_base32(hashlib.sha1(data, usedforsecurity=False).digest())}"


def _base32(digest: bytes) -> str:
    """Of 20 bytes. The standard library's takes longer than all the rest of a small record."""
    pairs = _BASE32_PAIRS
    text = ""
    for start in (0, 5, 10, 15):
        bits = int.from_bytes(digest[start : start + 5], "big")
        text += pairs[bits >> 30] + pairs[bits >> 20 & 1023] + pairs[bits >> 10 & 1023]
        text += pairs[bits & 1023]
    return text


def _target(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    scheme = scheme.lower()
    if scheme not in ("http", "https") or not separator or not rest:
        raise ValueError("its URL is not one of HTTP")
    target = f"{scheme}://{_escaped(rest)}"
    if len(target) > _LONGEST_TARGET:
        raise ValueError(f"its URL has {len(target)} characters")
    return target


def _escaped(text: str) -> str:
    """Everything but what can be seen and is ASCII, as it would be in a URL."""
    return _UNSAFE.sub(_percent, text)


def _percent(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "surrogatepass"))


def _date(moment: str) -> str:
    if _DATE.fullmatch(moment):
        return moment
    parsed = datetime.fromisoformat(moment)
    if parsed.tzinfo is None:
        raise ValueError("it is not said in which time zone it was fetched")
    return rfc3339(parsed)


def _fields(**fields: str | int | None) -> bytes:
    known = {name: value for name, value in fields.items() if value is not None}
    lines = (f"{name}: {_NO_TEXT.sub(_percent, str(value))}\r\n" for name, value in known.items())
    return "".join(lines).encode()
