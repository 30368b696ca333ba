"""Who is connected: worker ids with their heartbeats, and the processes that own jobs. Pure."""

from dataclasses import dataclass, field
from typing import Annotated, Protocol

import msgspec

from manyhands.broker.jobs import Int64

SILENT_AFTER_S = 60.0
# A process without a connection may be on its way back; after this, others get its jobs.
GRACE_S = 5.0
# After a restart of the broker everybody has to connect anew.
RESTART_GRACE_S = 15.0
STATES = ("", "quiet", "terminate")


class Hello(msgspec.Struct):
    """What a client says of itself. `instance` is ours: one id per process and start of it."""

    hostname: str | None = None
    wid: str | None = None
    pid: Int64 | None = None
    labels: list[str | None] | None = None
    pwdhash: str | None = None
    username: str | None = None
    v: Annotated[int, msgspec.Meta(ge=0, le=255)] | None = None
    rss_kb: Int64 | None = None
    instance: str | None = None

    @property
    def owner(self) -> str | None:
        """Who the jobs of this connection belong to; None for a client that is no worker, whose
        jobs come back only when their reservation ends."""
        if self.instance:
            return self.instance
        return f"{self.hostname}/{self.pid}/{self.wid}" if self.wid else None


class Peer(Protocol):
    """A connection, as far as this module cares."""

    hello: Hello

    def abort(self) -> None: ...

    def end_fetches(self) -> None: ...


@dataclass(slots=True, eq=False)
class Worker:
    """One worker id. `state` is an index of STATES and only grows."""

    wid: str
    beat_at: float
    state: int = 0
    rss_kb: int = 0
    peers: set[Peer] = field(default_factory=set)


class Clients:
    """State: workers by id; the connections of each owner; owners without one, and since when."""

    def __init__(self) -> None:
        self.workers: dict[str, Worker] = {}
        self.reaped = 0
        self._peers: dict[str, int] = {}
        self._gone_at: dict[str, float] = {}

    def expect(self, owner: str, now: float) -> None:
        """A restart found jobs in the hands of this owner, who has yet to come back."""
        self._gone_at[owner] = now + RESTART_GRACE_S - GRACE_S

    def connected(self, peer: Peer, now: float) -> Worker | None:
        if owner := peer.hello.owner:
            self._peers[owner] = self._peers.get(owner, 0) + 1
            self._gone_at.pop(owner, None)
        wid = peer.hello.wid
        if not wid:
            return None
        worker = self.workers.get(wid)
        if worker is None:
            worker = self.workers[wid] = Worker(wid, now)
        worker.peers.add(peer)
        return worker

    def disconnected(self, peer: Peer, now: float) -> None:
        if owner := peer.hello.owner:
            self._peers[owner] -= 1
            if not self._peers[owner]:
                del self._peers[owner]
                self._gone_at[owner] = now
        worker = self.workers.get(peer.hello.wid or "")
        if worker is not None:
            worker.peers.discard(peer)
            if not worker.peers:
                del self.workers[worker.wid]

    def beat(self, wid: str, state: str | None, rss_kb: int, now: float) -> Worker | None:
        worker = self.workers.get(wid)
        if worker is None:
            return None
        worker.beat_at = now
        worker.rss_kb = rss_kb
        if state in STATES and STATES.index(state) > worker.state:
            worker.state = STATES.index(state)
            for peer in worker.peers:
                peer.end_fetches()
        return worker

    def close_silent(self, now: float) -> None:
        for worker in [w for w in self.workers.values() if now - w.beat_at > SILENT_AFTER_S]:
            self.reaped += 1
            for peer in list(worker.peers):
                peer.abort()

    def take_gone(self, now: float) -> list[str]:
        """Owners whose time to come back is over; each is named once."""
        gone = [owner for owner, since in self._gone_at.items() if now - since >= GRACE_S]
        for owner in gone:
            del self._gone_at[owner]
        return gone
