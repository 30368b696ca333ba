"""An HTTP client that sends what it is told to, right or wrong."""

import json
import socket
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

TIMEOUT_S = 15.0


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class HttpSocket:
    """One connection to a port of 127.0.0.1; a context manager."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        self._input = self._socket.makefile("rb")

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

    def is_closed_by_server(self) -> bool:
        """Wait for the server to close; false if it says another word."""
        try:
            return self._input.read(1) == b""
        except ConnectionResetError:
            return True

    def set_timeout(self, seconds: float) -> None:
        self._socket.settimeout(seconds)

    def close(self) -> None:
        self._input.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _line(self) -> str:
        line = self._input.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        return line[:-2].decode("latin-1")
