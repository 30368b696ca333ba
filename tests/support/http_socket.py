"""An HTTP client that sends what it is told to, right or wrong."""

import json
import socket
from dataclasses import dataclass
from typing import Any

from tests.support.line_socket import LineSocket

TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class HttpSocket(LineSocket):
    """One connection to a port of 127.0.0.1; a context manager."""

    encoding = "latin-1"

    def __init__(self, port: int) -> None:
        super().__init__(socket.create_connection(("127.0.0.1", port), TIMEOUT_S))

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def request(self, method: str, path: str, *headers: str, body: bytes = b"") -> None:
        """The headers are sent as they are; none is added but Host."""
        lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *headers, "", ""]
        self.send("\r\n".join(lines).encode() + body)

    def chunk(self, data: bytes) -> None:
        """A piece of a body that was announced as chunked; an empty one ends it."""
        self.send(b"%x\r\n%b\r\n" % (len(data), data))

    def answer(self) -> Answer:
        status = int(self._line().split()[1])
        headers = {}
        while line := self._line():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        if status == 100:
            return self.answer()
        return Answer(status, headers, self._input.read(int(headers.get("content-length", "0"))))
