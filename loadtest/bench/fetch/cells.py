"""What `bench-fetch` measures: pages of two sizes, with and without TLS, over connections that stay
or are made anew; and by which clients. Pure."""

from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from loadtest.lib.cell_keys import parse_known

OURS = "ours"
# Ours first; a ratio is each of the others to ours.
SIDES = {
    OURS: "our fetcher",
    "aiohttp": "bare aiohttp",
    "pyreqwest": "pyreqwest",
    "httpx": "httpx",
}
# As many hosts as slots: each has one connection, as a polite crawl has it.
HOSTS = 50
THINK_MS = 10
RUN_S = 4.0
SIZES = {"20k": 20_000, "138k": 138_000}
SCHEMES = ("http", "https")
CONNECTIONS = {"keep": "kept connections", "close": "new connections"}


@dataclass(frozen=True, slots=True)
class FetchCell:
    scheme: str
    connections: str
    size: str

    @property
    def key(self) -> str:
        return f"{self.scheme}/{self.connections}/{self.size}"

    @property
    def title(self) -> str:
        scheme = "TLS" if self.scheme == "https" else "HTTP"
        return f"{scheme}, {CONNECTIONS[self.connections]}, {SIZES[self.size] // 1000} KB"

    def path(self, name: str) -> str:
        return f"/{self.connections}/{SIZES[self.size]}/{name}"


@dataclass(frozen=True, slots=True)
class FetchOrder:
    """What the process that fetches is told; as JSON on its command line."""

    side: str
    scheme: str
    connections: str
    size: str
    port: int
    authority_file: str
    seconds: float
    core: int

    @property
    def cell(self) -> FetchCell:
        return FetchCell(self.scheme, self.connections, self.size)

    @property
    def size_bytes(self) -> int:
        return SIZES[self.size]

    def url(self, host: int, page: int) -> str:
        return f"{self.scheme}://{host_name(host)}:{self.port}{self.path(host, page)}"

    def path(self, host: int, page: int) -> str:
        return self.cell.path(f"{host}-{page}")

    def is_right(self, body: bytes, host: int, page: int) -> bool:
        mark = f"<!doctype html><title>{self.path(host, page)}</title>".encode()
        return len(body) == self.size_bytes and body.startswith(mark)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


CELLS = tuple(
    FetchCell(scheme, connections, size)
    for scheme, connections, size in product(SCHEMES, CONNECTIONS, SIZES)
)


def host_name(host: int) -> str:
    return f"h{host}.bench.test"


def parse_fetch_cells(text: str) -> tuple[FetchCell, ...]:
    """Read `http/keep/20k,https`; raises ValueError with the wrong word."""
    return parse_known(text, CELLS)
