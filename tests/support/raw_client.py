"""A Faktory connection without any of our own client code: what a stranger would send."""

import hashlib
import json
import socket
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.support.line_socket import LineSocket

TIMEOUT_S = 20.0


class RawConnection(LineSocket):
    """A blocking connection that was greeted and has said nothing yet; a context manager."""

    def __init__(self, url: str, *, ca_file: Path | None = None) -> None:
        parts = urlsplit(url)
        assert parts.hostname and parts.port
        connected = socket.create_connection((parts.hostname, parts.port), TIMEOUT_S)
        if parts.scheme == "tcp+tls":
            context = ssl.create_default_context(cafile=ca_file)
            connected = context.wrap_socket(connected, server_hostname=parts.hostname)
        super().__init__(connected)
        self.password = unquote(parts.password or "")
        greeting = self._line()
        assert greeting.startswith("+HI "), greeting
        self.greeting: dict[str, Any] = json.loads(greeting.removeprefix("+HI "))

    def pwdhash(self, password: str, iterations: int | None = None) -> str:
        """The answer to the salt of the greeting; by as many rounds as it asks for."""
        digest = hashlib.sha256((password + self.greeting["s"]).encode()).digest()
        for _ in range((iterations or self.greeting["i"]) - 1):
            digest = hashlib.sha256(digest).digest()
        return digest.hex()

    def send(self, *lines: str) -> None:
        self._socket.sendall("".join(f"{line}\r\n" for line in lines).encode())

    def answer(self) -> str | None:
        """A bulk or simple answer as text, nil as None. Errors keep their `-`."""
        head = self._line()
        if head.startswith("$"):
            size = int(head[1:])
            return None if size < 0 else self._input.read(size + 2)[:-2].decode()
        return head.removeprefix("+")

    def call(self, line: str) -> str | None:
        self.send(line)
        return self.answer()

    def info(self) -> dict[str, Any]:
        answer = self.call("INFO")
        assert answer is not None
        info: dict[str, Any] = json.loads(answer)
        return info


class RawClient(RawConnection):
    """One that has said HELLO, with the password of its URL where the server asks for one."""

    def __init__(self, url: str, *, wid: str | None = None, ca_file: Path | None = None) -> None:
        super().__init__(url, ca_file=ca_file)
        hello: dict[str, Any] = {"v": 2}
        if "s" in self.greeting:
            hello["pwdhash"] = self.pwdhash(self.password)
        if wid is not None:
            hello |= {"wid": wid, "hostname": "raw", "pid": 1, "labels": []}
        answer = self.call("HELLO " + json.dumps(hello))
        assert answer == "OK", answer
