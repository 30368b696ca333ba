"""A blocking connection whose other side answers in lines."""

import socket
from typing import Self


class LineSocket:
    """What a client without any of our own code stands on; a context manager."""

    encoding = "utf-8"

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._input = connected.makefile("rb")

    def is_closed_by_server(self) -> bool:
        """Wait for the server to close without another word; false if there is one."""
        try:
            return self._input.read(1) == b""
        except ConnectionResetError:
            return True

    def set_timeout(self, seconds: float) -> None:
        """How long to wait for an answer; after a time-out the connection is of no more use."""
        self._socket.settimeout(seconds)

    def close(self) -> None:
        self._input.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _line(self) -> str:
        line = self._input.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        return line[:-2].decode(self.encoding)
