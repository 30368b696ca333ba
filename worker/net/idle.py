"""Connections that wait for their host's next request: one per host, for some seconds, up to a
total. Pure: `now` is seconds on any one clock."""

from collections import OrderedDict
from typing import Generic, NamedTuple, Protocol, TypeVar

from manyhands.shared.urls import Url


class Closable(Protocol):
    @property
    def is_open(self) -> bool: ...

    def close(self) -> None: ...


Connection = TypeVar("Connection", bound=Closable)


class Origin(NamedTuple):
    """Connections are never shared between two of these."""

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: Url) -> "Origin":
        return cls(url.scheme, url.host, url.port)


class IdleConnections(Generic[Connection]):
    """State: the connections and since when each waits, the longest first."""

    def __init__(self, max_connections: int, keep_s: float) -> None:
        self._max_connections = max_connections
        self._keep_s = keep_s
        self._waiting: OrderedDict[Origin, tuple[Connection, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, origin: Origin, now: float) -> Connection | None:
        connection, since = self._waiting.pop(origin, (None, 0.0))
        if connection is None:
            return None
        if connection.is_open and now - since <= self._keep_s:
            return connection
        connection.close()
        return None

    def put(self, origin: Origin, connection: Connection, now: float) -> None:
        """Keep it, or close it if there are enough."""
        self.close_expired(now)
        if origin in self._waiting or len(self._waiting) >= self._max_connections:
            connection.close()
        else:
            self._waiting[origin] = (connection, now)

    def close_expired(self, now: float) -> None:
        while self._waiting:
            origin, (connection, since) = next(iter(self._waiting.items()))
            if now - since <= self._keep_s:
                return
            del self._waiting[origin]
            connection.close()

    def close_all(self) -> None:
        for connection, _ in self._waiting.values():
            connection.close()
        self._waiting.clear()
