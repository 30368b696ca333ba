"""A Faktory connection without any of our own client code: what a stranger would send."""

import json
import socket
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

TIMEOUT_S = 10.0


class RawClient:
    """A blocking, plain-text connection that has said HELLO; a context manager."""

    def __init__(self, url: str, *, wid: str | None = None) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname, parts.port), TIMEOUT_S)
        self._input = self._socket.makefile("rb")
        greeting = self._line()
        assert greeting.startswith("+HI"), greeting
        hello: dict[str, Any] = {"v": 2}
        if wid is not None:
            hello |= {"wid": wid, "hostname": "raw", "pid": 1, "labels": []}
        answer = self.call("HELLO " + json.dumps(hello))
        assert answer == "OK", answer

    def call(self, line: str) -> str | None:
        """Send one line; a bulk or simple answer as text, nil as None. Errors keep their `-`."""
        self._socket.sendall(line.encode() + b"\r\n")
        head = self._line()
        if head.startswith("$"):
            size = int(head[1:])
            return None if size < 0 else self._input.read(size + 2)[:-2].decode()
        return head.removeprefix("+")

    def info(self) -> dict[str, Any]:
        answer = self.call("INFO")
        assert answer is not None
        info: dict[str, Any] = json.loads(answer)
        return info

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
        return line[:-2].decode()
