"""Servers that are not Faktory: what a wrong port leads to."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def listening(greeting: bytes | None) -> Iterator[int]:
    """Accept on a free port and send the greeting, or with None stay silent; gives the port."""
    listener = socket.create_server(("127.0.0.1", 0))
    accepted: list[socket.socket] = []

    def serve() -> None:
        # Ends when the listener is shut down.
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                accepted.append(connection)
                if greeting is not None:
                    connection.sendall(greeting)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
        for connection in accepted:
            connection.close()
