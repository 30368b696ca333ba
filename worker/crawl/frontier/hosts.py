"""The domains that this process has in memory: those that are due, with the URLs next in line.

State only; what may be requested when is decided by `ready`, and kept in the store.
"""

from collections import deque
from dataclasses import dataclass, field
from math import inf

from manyhands.shared.crawl.store.model import ClaimedUrl
from manyhands.worker.crawl.politeness.delays import OriginState


@dataclass(slots=True, eq=False)
class Origin:
    """scheme://host:port. `handle` is unique in this process, `id` in the shard's store; `urls`
    are claimed there."""

    handle: int
    id: int
    name: str
    domain: "Domain"
    state: OriginState
    urls: deque[ClaimedUrl] = field(default_factory=deque)
    in_flight: int = 0
    is_claiming: bool = False
    # Something was queued while a claim was under way, which may not have seen it.
    has_news: bool = False

    @property
    def is_idle(self) -> bool:
        return not (self.urls or self.in_flight or self.is_claiming)


@dataclass(slots=True, eq=False)
class Domain:
    """A registrable domain: what is polite is reckoned by it. Times are on the loop's clock."""

    id: int
    name: str
    shard: "OwnedShard"
    delay_s: float
    next_at: float
    # When the first of its origins is due that have URLs, but not for so long that they left the
    # memory.
    look_at: float = inf
    in_flight: int = 0
    origins: dict[str, Origin] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class OwnedShard:
    """`in_flight` are requests and what follows from them until the store knows."""

    number: int
    epoch: int
    domains: dict[str, Domain] = field(default_factory=dict)
    in_flight: int = 0
    # Domains that seemed forgotten at the last look.
    suspects: set[str] = field(default_factory=set)
    # Nothing new is begun: it is about to be given up.
    is_leaving: bool = False
    is_loading: bool = False
    # When the origins that are left alone are looked at next (the loop's clock), and up to which
    # time of theirs (as the store has it) they were.
    hopeless_look_at: float = 0.0
    hopeless_looked_to: float = 0.0

    @property
    def is_busy(self) -> bool:
        return bool(self.in_flight or self.is_loading)
