"""A small web site on this machine, to have something to fetch: some hosts, each some pages."""

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# Each address is a host of its own, so that their pages go to different shards.
HOSTS = tuple(f"127.0.0.{number}" for number in range(2, 10))
LINKS_PER_PAGE = 5


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024


class _Pages(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        number = self.path.strip("/")
        if not number.isdecimal():
            self.send_error(404)
            return
        body = page(self.headers.get("Host", ""), int(number)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the demo shows what happens."""


def page(host: str, number: int) -> str:
    links = "".join(
        f'<li><a href="/{number + step}">page {number + step}</a></li>'
        for step in range(1, LINKS_PER_PAGE + 1)
    )
    return (
        f"<!doctype html><html><head><title>Page {number} of {host}</title></head>"
        f"<body><h1>Page {number}</h1><ul>{links}</ul></body></html>"
    )


@contextlib.contextmanager
def local_site(pages: int) -> Iterator[list[str]]:
    """Serve while the context is open; gives the URLs of so many pages."""
    servers = [_Server((host, 0), _Pages) for host in HOSTS]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        places = [
            f"http://{host}:{server.server_port}"
            for host, server in zip(HOSTS, servers, strict=True)
        ]
        yield [f"{places[n % len(places)]}/{n // len(places)}" for n in range(pages)]
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
