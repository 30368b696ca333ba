"""How many sockets a worker process opens, and what each carries. Pure.

More fetch lanes make a real Faktory cheaper per job, up to a point, because its Redis calls
coalesce. An ACK costs it twice as many of those calls as a FETCH, so three fifths of the sockets
carry results: with fewer, ACKs queue up and hold back the FETCHes. A server takes 2,000 connections
in all, so a fleet that nears that gets fewer. Our broker has no such limit and answers many
commands at a time: there a handful of sockets carries everything, many lines per read.
"""

from collections.abc import Sequence
from dataclasses import dataclass

# A Faktory server refuses the next one; producers and other clients need some of them.
SERVER_CONNECTIONS = 2000
FLEET_CONNECTIONS = 1800
BROKER_LANES = 2
# Of the lanes.
COMMAND_PERCENT = 60


@dataclass(slots=True, frozen=True)
class LanePlan:
    """Sockets of one process: `fetch` + `command` lanes, and one for the heartbeat."""

    fetch: int
    command: int

    @property
    def connections(self) -> int:
        return self.fetch + self.command + 1


def plan_lanes(share: int, slots: int, server_connections: int) -> LanePlan:
    """Split this process's share of the budget; at least one lane of each kind."""
    room = max(0, FLEET_CONNECTIONS - server_connections)
    lanes = min(share, room) - 1
    command = max(1, min(lanes * COMMAND_PERCENT // 100, slots))
    fetch = max(1, min(lanes - command, slots))
    return LanePlan(fetch=fetch, command=command)


def plan_broker_lanes(share: int, slots: int, stages: int = 1) -> LanePlan:
    """Two of each kind, so that one broken socket does not stop the worker; two fetch lanes for
    each stage."""
    plan = plan_lanes(share, slots, 0)
    return LanePlan(min(plan.fetch, BROKER_LANES * stages), min(plan.command, BROKER_LANES))


def split_lanes(fetch: int, weights: Sequence[int]) -> list[int]:
    """Fetch lanes for each stage by weight, at least one each, which may raise the total."""
    total = sum(weights)
    shares = [max(1, fetch * weight // total) for weight in weights]
    for stage in sorted(range(len(weights)), key=lambda at: -weights[at]):
        shares[stage] += 1 if sum(shares) < fetch else 0
    return shares
