"""The servers that must all answer alike: the suite runs against each of them."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from devservers import BrokerServer, FaktoryServer
from manyhands.shared.faktory.client import Client
from manyhands.shared.faktory.handshake import parse_url
from tests.support.raw_client import RawClient


class Server(Protocol):
    """All that the contract tests need of a server."""

    @property
    def url(self) -> str: ...

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...

    @property
    def ca_file(self) -> Path | None: ...


# The fixtures that give a running server; one that joins here has to pass every test.
SERVERS = ["faktory_process", "broker_process"]


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Server:
    server: Server = request.getfixturevalue(request.param)
    return server


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    """Our client, at a server that has just been emptied."""
    async with Client(parse_url(server.url)) as client:
        await client.flush()
        yield client


@pytest.fixture
def faktory_raw(faktory_process: FaktoryServer) -> Iterator[RawClient]:
    with RawClient(faktory_process.url) as raw:
        assert raw.call("FLUSH") == "OK"
        yield raw


@pytest.fixture
def broker_raw(broker_process: BrokerServer) -> Iterator[RawClient]:
    with RawClient(broker_process.url) as raw:
        assert raw.call("FLUSH") == "OK"
        yield raw
