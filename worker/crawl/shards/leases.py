"""Which shards a process may hold, and until when it may act on them. No I/O but the clock."""

import time
from collections.abc import Callable, Collection, Sequence

from manyhands.shared.crawl.store.model import Lease, LeaseLost, Member

# An owner stops acting so much of the lease before its end: a request, once checked, is sent at
# once, and what is open then is closed.
MARGIN = 0.2
# How often a lease is renewed during its lifetime; members report their figures at the same time.
RENEWALS = 4


def shares(shards: int, members: Sequence[Member]) -> dict[str, int]:
    """How many shards each member should own: by slots, every process finds the same."""
    total = sum(member.slots for member in members)
    if not total:
        return {}
    ordered = sorted(members, key=lambda member: member.name)
    given = {member.name: shards * member.slots // total for member in ordered}
    by_remainder = sorted(
        ordered, key=lambda member: (-(shards * member.slots % total), member.name)
    )
    for member in by_remainder[: shards - sum(given.values())]:
        given[member.name] += 1
    return given


def shards_to_claim(
    me: str,
    shards: int,
    members: Sequence[Member],
    leases: Sequence[Lease],
    damaged: Collection[int] = (),
) -> list[int]:
    """Free shards, as many as this member's share lacks. Members begin at different places, so that
    two that look at the same time seldom want the same."""
    held = {lease.shard: lease.owner for lease in leases if lease.is_live}
    mine = sum(owner == me for owner in held.values())
    wanted = shares(shards, members).get(me, 0) - mine
    names = sorted(member.name for member in members)
    first = shards * names.index(me) // len(names) if me in names else 0
    in_turn = (shard % shards for shard in range(first, first + shards))
    free = [shard for shard in in_turn if shard not in held and shard not in damaged]
    return free[: max(0, wanted)]


def shards_to_release(me: str, shards: int, members: Sequence[Member], mine: Sequence[int]) -> int:
    """How many this member has beyond its share."""
    return max(0, len(mine) - shares(shards, members).get(me, 0))


class LeaseGuard:
    """State: until when this process may act on each shard, on its monotonic clock, and with which
    epoch."""

    def __init__(self, ttl_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._for_s = ttl_s * (1 - MARGIN)
        self._clock = clock
        self._until: dict[int, float] = {}
        self.epochs: dict[int, int] = {}

    def now(self) -> float:
        return self._clock()

    def granted(self, shard: int, epoch: int, asked_at: float) -> None:
        """`asked_at` is from before the store was asked, so that our time runs out first."""
        self.epochs[shard] = epoch
        self._until[shard] = asked_at + self._for_s

    def renewed(self, shards: set[int], asked_at: float) -> list[int]:
        """Those that are no longer ours."""
        lost = [shard for shard in self.epochs if shard not in shards]
        for shard in shards:
            if shard in self._until:
                self._until[shard] = asked_at + self._for_s
        return lost

    def ended(self, shard: int) -> None:
        self.epochs.pop(shard, None)
        self._until.pop(shard, None)

    def next_end(self) -> float | None:
        """When the time of the next shard is over; None: there is none to wait for."""
        now = self._clock()
        return min((until for until in self._until.values() if until > now), default=None)

    def hold(self, shard: int, epoch: int) -> bool:
        until = self._until.get(shard)
        return until is not None and self.epochs[shard] == epoch and self._clock() < until

    def check(self, shard: int, epoch: int) -> None:
        """Raises LeaseLost when nothing more may be sent under this lease."""
        if not self.hold(shard, epoch):
            raise LeaseLost(f"the lease of shard {shard} has run out")
