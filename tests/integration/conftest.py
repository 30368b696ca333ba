"""The ingest service in front of each of the servers."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx
import pytest

from devservers.api import ApiServer
from tests.conftest import AnyServer


@pytest.fixture(scope="module")
def api_of() -> Iterator[Callable[[AnyServer], ApiServer]]:
    """One for each server, for all tests of a module."""
    started: dict[str, ApiServer] = {}
    with ExitStack() as stack:

        def of(server: AnyServer) -> ApiServer:
            if server.url not in started:
                started[server.url] = stack.enter_context(ApiServer(server))
            return started[server.url]

        yield of
        for api in started.values():
            assert "Traceback" not in api.log_text, api.log_text


@pytest.fixture
def api(server: AnyServer, api_of: Callable[[AnyServer], ApiServer]) -> ApiServer:
    """In front of `server`: a Faktory, or for what is marked ON_BOTH_SERVERS each in turn."""
    return api_of(server)


@pytest.fixture
def http(api: ApiServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=api.url, trust_env=False, timeout=20) as client:
        yield client
