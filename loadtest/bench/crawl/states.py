"""Where the state of a measured crawl is: in files, or in a PostgreSQL of its own, which may be
some way off."""

from contextlib import ExitStack
from dataclasses import dataclass

from devservers import PostgresServer, Relay
from loadtest.bench.crawl.cells import AWAY_MS, OURS, POSTGRES_AWAY
from loadtest.bench.crawl.cpu import usage_of


@dataclass(frozen=True, slots=True)
class State:
    """`place` as CRAWL_STATE names it; None: files beside the crawl's others."""

    place: str | None = None
    server_pid: int | None = None

    def server_cpu_s(self) -> float:
        """Of the database, so far: it is not ours."""
        return usage_of([self.server_pid], {}).total_s if self.server_pid else 0.0


def state_of(side: str, opened: ExitStack) -> State:
    if side == OURS:
        return State()
    server = opened.enter_context(PostgresServer())
    port = server.port
    if side == POSTGRES_AWAY:
        port = opened.enter_context(Relay(server.port, AWAY_MS)).port
    return State(server.url_at(port), server.pid)
