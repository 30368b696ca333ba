"""Which children a service has, and each one's share of its connections. Pure."""

from typing import Protocol

from manyhands.worker.service.stages import DEFAULT_GROUP, ProcessGroup, parse_groups

# The supervisor's own connection to the server.
OWN_CONNECTIONS = 1
# A lane to fetch, a lane for results, and the heartbeat's.
LEAST_CONNECTIONS = 3


class WhatRuns(Protocol):
    """The settings that say what runs."""

    @property
    def stages(self) -> str: ...

    @property
    def processes(self) -> int: ...

    @property
    def concurrency(self) -> int: ...


def service_groups(settings: WhatRuns) -> tuple[ProcessGroup, ...]:
    """WORKER_STAGES; without it, WORKER_PROCESSES alike that run everything."""
    groups = parse_groups(settings.stages)
    return groups or (ProcessGroup(DEFAULT_GROUP, settings.processes, settings.concurrency),)


def connections_of_child(budget: int, children: int) -> int:
    """The same for each; few make jobs slower, but a child without any runs none."""
    return max(LEAST_CONNECTIONS, (budget - OWN_CONNECTIONS) // children)
