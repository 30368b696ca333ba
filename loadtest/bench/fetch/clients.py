"""The clients that `bench-fetch` compares us with, each connecting to one address that it is given
and asking nobody for the name: a crawler may connect to nothing else than what it checked."""

import asyncio
import socket
import ssl
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Protocol

import aiohttp
import httpx
from aiohttp.abc import AbstractResolver, ResolveResult
from pyreqwest.client import Client, ClientBuilder

from loadtest.bench.fetch.cells import FetchOrder, host_name

ADDRESS = "127.0.0.1"


class PageClient(Protocol):
    async def open(self, host: int) -> None:
        """Whatever a client needs for each host."""

    async def get(self, host: int, page: int) -> bytes: ...

    async def close(self) -> None: ...


def client_tls(order: FetchOrder) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=order.authority_file)
    context.set_alpn_protocols(["http/1.1"])
    return context


class BareAiohttp:
    def __init__(self, order: FetchOrder) -> None:
        self._order = order
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, resolver=_Pinned(), ssl=client_tls(order)),
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def open(self, host: int) -> None:
        """One session is for all."""

    async def get(self, host: int, page: int) -> bytes:
        async with self._session.get(self._order.url(host, page)) as response:
            return await response.read()

    async def close(self) -> None:
        await self._session.close()


class _Pinned(AbstractResolver):
    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(hostname=host, host=ADDRESS, port=port, family=family, proto=0, flags=0)
        ]

    async def close(self) -> None:
        """Nothing is open."""


class Pyreqwest:
    """It can be told the address of a name only when a client is made: so one for each host."""

    def __init__(self, order: FetchOrder) -> None:
        self._order = order
        self._authority = Path(order.authority_file).read_bytes()
        self._clients: dict[int, Client] = {}
        self._open = AsyncExitStack()

    async def open(self, host: int) -> None:
        builder = ClientBuilder().http1_only().no_proxy().follow_redirects(False)
        builder = builder.resolve(host_name(host), ADDRESS, self._order.port)
        if self._order.scheme == "https":
            builder = builder.add_root_certificate_pem(self._authority)
        self._clients[host] = await self._open.enter_async_context(builder.build())

    async def get(self, host: int, page: int) -> bytes:
        response = await self._clients[host].get(self._order.url(host, page)).build().send()
        return bytes(await response.bytes())

    async def close(self) -> None:
        await self._open.aclose()


class Httpx:
    """One small pool per host: it looks through a whole pool for every request. Connects to the
    address by having it in the URL, and the name in the header and in TLS."""

    def __init__(self, order: FetchOrder) -> None:
        self._order = order
        self._tls = client_tls(order)
        self._clients: dict[int, httpx.AsyncClient] = {}

    async def open(self, host: int) -> None:
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=1)
        self._clients[host] = httpx.AsyncClient(verify=self._tls, limits=limits, trust_env=False)

    async def get(self, host: int, page: int) -> bytes:
        order = self._order
        response = await self._clients[host].get(
            f"{order.scheme}://{ADDRESS}:{order.port}{order.path(host, page)}",
            headers={"Host": f"{host_name(host)}:{order.port}"},
            extensions={"sni_hostname": host_name(host)},
        )
        return response.content

    async def close(self) -> None:
        await asyncio.gather(*(client.aclose() for client in self._clients.values()))
