"""The API's HTTP front, over real connections to a real process with a real broker behind it."""

import http.client
import re
import socket
import time
from contextlib import ExitStack
from typing import Self

import zstandard

from devservers import ApiServer, BrokerServer
from tests.fuzz.inputs import Pieces, damaged, in_pieces
from tests.fuzz.servers import ServiceLog, hear, rss_of, say
from tests.fuzz.targets import Fault
from tests.support.archives import gzipped
from tests.support.raw_client import RawClient

HOST = b"Host: 127.0.0.1\r\n"
JSON, NDJSON = b"Content-Type: application/json\r\n", b"Content-Type: application/x-ndjson\r\n"
JOB = b'{"a": 1, "b": 1}'
JOBS = b'[{"jobtype":"add","args":{"a":1,"b":1}},{"jobtype":"add","args":[2,3],"queue":"q"}]'
LINES = b'{"jobtype":"add","args":{"a":1,"b":1}}\n{"jobtype":"add","args":[1,2],"retry":3}\n'


def _post(path: bytes, headers: bytes, body: bytes) -> bytes:
    head = b"POST %b HTTP/1.1\r\n%b%bContent-Length: %d\r\n\r\n" % (path, HOST, headers, len(body))
    return head + body


def _chunked(path: bytes, headers: bytes, *chunks: bytes, trailers: bytes = b"") -> bytes:
    head = b"POST %b HTTP/1.1\r\n%b%bTransfer-Encoding: chunked\r\n\r\n" % (path, HOST, headers)
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    return head + body + b"0\r\n" + trailers + b"\r\n"


MESSAGES = (
    _post(b"/jobs/add", JSON, JOB),
    _post(b"/jobs/add", b"Content-Type: application/x-www-form-urlencoded\r\n", b"a=1&b=2"),
    _post(b"/jobs", JSON, JOBS),
    _post(b"/jobs", NDJSON, LINES),
    _post(b"/jobs", NDJSON + b"Content-Encoding: gzip\r\n", gzipped(LINES)),
    _post(b"/jobs", NDJSON + b"Content-Encoding: zstd\r\n", zstandard.compress(LINES)),
    _post(b"/jobs/add", JSON + b"Expect: 100-continue\r\n", JOB),
    _post(b"/jobs/add?queue=q", JSON + b"Idempotency-Key: a\r\nX: a\r\n b\r\n", JOB),
    _post(b"/crawls", JSON, b'{"seeds":["http://example.com/"],"contact":"a@example.com"}'),
    _chunked(b"/jobs", NDJSON, LINES[:20], LINES[20:], trailers=b"X-T: a\r\nY: b\r\n"),
    _chunked(b"/jobs/add", JSON, JOB[:3], JOB[3:]),
    b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /readyz HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n",
    b"GET /stats?x=%ff HTTP/1.1\r\n" + HOST + b"Accept: */*\r\n\r\n",
    b"GET /sets/retries?limit=10&cursor=0 HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /crawls?limit=5 HTTP/1.0\r\n" + HOST + b"Connection: keep-alive\r\n\r\n",
    b"HEAD / HTTP/1.1\r\n" + HOST + b"Authorization: Bearer mh_x\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\n" + HOST + b"Origin: http://evil.example\r\n\r\n",
    b"DELETE http://127.0.0.1/sets/dead HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /openapi.json HTTP/1.1\r\n" + HOST + b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
)
WORDS = (
    *(HOST, JSON, NDJSON, b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"),
    *(b"Transfer-Encoding: gzip, chunked\r\n", b"HTTP/2.0", b"HTTP/1.0", b"Host: evil.example\r\n"),
    *(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"1\r\na\r\n", b"0\r\n", b"0\r\n\r\n", b";a=b", b"X: "),
    *(b'{"a":', b'"jobtype":"add"', b'"args":', b'"at":"2100-01-01T00:00:00Z"', b"\r\n\r\n{}"),
    *(b"Content-Encoding: br\r\n", b"Connection: close\r\n", b"ffffffffffffffff", b"/../../x"),
)
_BROKEN = re.compile(rb"HTTP/1\.1 500 .*", re.DOTALL)


class ApiFront:
    """State: API and broker, and the connections of those who ask."""

    inputs = in_pieces(damaged(MESSAGES, WORDS, max_bytes=300_000))

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._broker = stack.enter_context(BrokerServer())
            self._api = stack.enter_context(ApiServer(self._broker))
            self._jobs = stack.enter_context(RawClient(self._broker.url))
            self._log = ServiceLog(self._api.log)
            self._probe = http.client.HTTPConnection("127.0.0.1", self._api.port, timeout=20.0)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._probe.close()
        self._stack.close()

    def run(self, pieces: Pieces) -> float:
        with socket.create_connection(("127.0.0.1", self._api.port), 5.0) as stranger:
            say(stranger, pieces)
            took_s = self._asked_s()
            heard = hear(stranger)
        self._log.check()
        if broken := _BROKEN.search(heard):
            raise Fault(broken[0][:500].decode(errors="replace"))
        return took_s

    def settle(self) -> None:
        self._jobs.call("FLUSH")

    def rss_bytes(self) -> int:
        return rss_of(self._api.pid)

    def _asked_s(self) -> float:
        began = time.perf_counter()
        self._probe.request("GET", "/healthz")
        answer = self._probe.getresponse()
        answer.read()
        if answer.status != 200:
            raise Fault(f"/healthz is answered with {answer.status}")
        return time.perf_counter() - began
