"""What a program on AWS asks of its surroundings: CloudWatch's query protocol, the roles of
containers and machines, and tokens for roles; as far as our requests go, and scripted."""

import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs

TAKEN = b"<PutMetricDataResponse><ResponseMetadata/></PutMetricDataResponse>"


class Asked(NamedTuple):
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def form(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(self.body.decode()).items()}


class Reply(NamedTuple):
    status: int = 200
    body: bytes = TAKEN


def refusal(status: int, code: str, message: str = "why") -> Reply:
    """As the query protocol says it."""
    text = f"<ErrorResponse><Error><Code>{code}</Code><Message>{message}</Message></Error>"
    return Reply(status, f"{text}</ErrorResponse>".encode())


def points_in(form: Mapping[str, str]) -> list[tuple[str, str, float]]:
    """Metric, stage and value of each datum of a PutMetricData."""
    assert form["Action"] == "PutMetricData"
    assert form["Version"] == "2010-08-01"
    found = []
    number = 1
    while (datum := f"MetricData.member.{number}") + ".MetricName" in form:
        assert form[f"{datum}.Dimensions.member.1.Name"] == "Stage"
        found.append(
            (
                form[f"{datum}.MetricName"],
                form[f"{datum}.Dimensions.member.1.Value"],
                float(form[f"{datum}.Value"]),
            )
        )
        number += 1
    return found


class AwsServer:
    """State: what was asked, and the answers by path: the first of several until one is left."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.replies: dict[str, list[Reply]] = {"/": [Reply()]}
        self._lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                asked = Asked(
                    self.command, self.path, dict(self.headers.items()), self.rfile.read(length)
                )
                reply = server.reply_to(asked)
                self.send_response(reply.status)
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)

            do_GET = do_POST = do_PUT = _answer

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def reply_to(self, asked: Asked) -> Reply:
        with self._lock:
            self.asked.append(asked)
            replies = self.replies.get(asked.path, [Reply(404, b"")])
            return replies.pop(0) if len(replies) > 1 else replies[0]

    @property
    def points(self) -> list[tuple[str, str, float]]:
        """Of all requests to CloudWatch, refused ones too."""
        with self._lock:
            forms = [asked.form for asked in self.asked if asked.path == "/"]
        return [point for form in forms for point in points_in(form)]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
