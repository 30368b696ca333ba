"""Hundreds of connections at once, for what a server does at its limit."""

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from tests.support.raw_client import RawClient


class HasUrl(Protocol):
    @property
    def url(self) -> str: ...


def connections(client: RawClient) -> int:
    return int(client.info()["server"]["connections"])


def wait_for_connections(client: RawClient, count: int) -> None:
    deadline = time.monotonic() + 40
    while (now := connections(client)) != count:
        assert time.monotonic() < deadline, f"the server has {now} connections, not {count}"
        time.sleep(0.05)


@contextmanager
def many_connections(server: HasUrl, count: int) -> Iterator[list[RawClient]]:
    """Hold so many logged-in, idle connections, and nobody else any: the server may still be
    closing those of an earlier test, and would refuse some of ours for them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, count + 500)), hard))
    held: list[RawClient] = []
    try:
        held.append(RawClient(server.url))
        wait_for_connections(held[0], 1)
        for _ in range(count - 1):
            held.append(RawClient(server.url))  # noqa: PERF401 - closed even if one fails
        wait_for_connections(held[0], count)
        yield held
    finally:
        for connection in held:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
