"""A directory as a web site on a loopback address, and what was asked of it by whom."""

import threading
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, Self


class Asked(NamedTuple):
    """One request that was answered; `agent` is the first word of the User-Agent."""

    agent: str
    method: str
    path: str
    status: int
    content_type: str


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Crawlers come with many connections at once.
    request_queue_size = 1000


class StaticSite:
    """State: the server and its thread while it runs, and all requests."""

    def __init__(self, directory: Path) -> None:
        self.asked: list[Asked] = []
        site = self

        class Handler(SimpleHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # An answer is a head and a body: without this the second waits for an ACK of the first.
            disable_nagle_algorithm = True
            status = 0
            content_type = ""

            def __init__(self, *arguments: Any) -> None:
                super().__init__(*arguments, directory=str(directory))

            def send_header(self, keyword: str, value: str) -> None:
                if keyword.lower() == "content-type":
                    self.content_type = value
                super().send_header(keyword, value)

            def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
                del size
                self.status = int(code)

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

            def end_headers(self) -> None:
                agent = self.headers.get("User-Agent", "").partition("/")[0]
                asked = Asked(agent, self.command, self.path, self.status, self.content_type)
                site.asked.append(asked)
                super().end_headers()

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def pages_of(self, agent: str) -> set[str]:
        """HTML that it was given, by path: queries mean nothing here, and fragments do not come."""
        return {
            asked.path.partition("?")[0]
            for asked in self.asked
            if asked.agent == agent
            and asked.method == "GET"
            and asked.status == HTTPStatus.OK
            and asked.content_type.partition(";")[0] == "text/html"
        }
