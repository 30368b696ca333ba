"""The process of `bench-fetch` that fetches: `python -m loadtest.bench.fetch.handlers ORDER`, the
order being a FetchOrder as JSON. Its name lets it know the worker, whose fetcher it measures."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from ipaddress import ip_network

import uvloop

from loadtest.bench.fetch.cells import HOSTS, OURS, FetchOrder
from loadtest.bench.fetch.clients import ADDRESS, BareAiohttp, Httpx, PageClient, Pyreqwest
from manyhands.shared.public_addresses import AddressRule
from manyhands.shared.settings import FetchSettings
from manyhands.shared.urls import parse_url
from manyhands.worker.net.http1_fetcher import Http1Fetcher

# Connections are made and caches filled before it counts.
WARM_UP_PAGES = 3


class PinnedNames:
    """Every name is the address of the origin."""

    async def addresses(self, host: str) -> Sequence[str]:  # noqa: ARG002 - whatever it is
        return (ADDRESS,)

    async def close(self) -> None:
        """Nothing is open."""


class Ours:
    """The fetcher as a crawl uses it: checks, limits, phases and all."""

    def __init__(self, order: FetchOrder) -> None:
        self._order = order
        self._settings = FetchSettings()
        rule = AddressRule([ip_network("127.0.0.0/8")])
        self._fetcher = Http1Fetcher(self._settings, rule, PinnedNames)
        self._lease_ends_at = time.monotonic() + 3600

    async def open(self, host: int) -> None:
        """One fetcher is for all."""

    async def get(self, host: int, page: int) -> bytes:
        answer = await self._fetcher.get(
            parse_url(self._order.url(host, page)),
            user_agent="Manyhands/0.1 (+mailto:bench@example.org)",
            max_bytes=self._settings.max_bytes,
            check=self._check,
            wants_body=_is_page,
        )
        return answer.body

    async def close(self) -> None:
        await self._fetcher.close()

    def _check(self) -> None:
        assert time.monotonic() < self._lease_ends_at


def _is_page(status: int, content_type: str) -> bool:
    return status == 200 and content_type.startswith("text/html")


CLIENTS: dict[str, Callable[[FetchOrder], PageClient]] = {
    OURS: Ours,
    "aiohttp": BareAiohttp,
    "pyreqwest": Pyreqwest,
    "httpx": Httpx,
}


async def measure(order: FetchOrder) -> dict[str, float]:
    client = CLIENTS[order.side](order)
    before_s = time.process_time()
    for host in range(HOSTS):
        await client.open(host)
    opening_s = time.process_time() - before_s
    await _fetch_all(client, order, lambda page: page < WARM_UP_PAGES)
    cpu_s, began_s = time.process_time(), time.perf_counter()
    ends_s = began_s + order.seconds
    pages = await _fetch_all(client, order, lambda _: time.perf_counter() < ends_s)
    took_s = time.perf_counter() - began_s
    cpu_s = time.process_time() - cpu_s
    await client.close()
    return {
        "pages": pages,
        "pages_per_s": pages / took_s,
        "cpu_us": cpu_s / pages * 1e6,
        "host_cpu_us": opening_s / HOSTS * 1e6,
    }


async def _fetch_all(client: PageClient, order: FetchOrder, is_next: Callable[[int], bool]) -> int:
    """Every host's pages one after the other, all hosts at a time; their number."""

    async def fetch_host(host: int) -> int:
        page = 0
        while is_next(page):
            body = await client.get(host, page)
            if not order.is_right(body, host, page):
                raise ValueError(f"a wrong page: {len(body)} bytes, {body[:80]!r}")
            page += 1
        return page

    return sum(await asyncio.gather(*(fetch_host(host) for host in range(HOSTS))))


def main() -> int:
    order = FetchOrder(**json.loads(sys.argv[1]))
    # Before any thread is made: they inherit it.
    os.sched_setaffinity(0, {order.core})
    print(json.dumps(uvloop.run(measure(order))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
