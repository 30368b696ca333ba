"""The system's limits for children: open files, memory. Decisions are pure; reading and setting
limits is at the end."""

import resource
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from pathlib import Path

from manyhands.worker.service.stages import ProcessGroup

# Python, the log, the loop, the link, files that handlers and sinks have open.
RESERVED_DESCRIPTORS = 64
# In the supervisor: its end of the link, and multiprocessing's two ends of pipes.
DESCRIPTORS_OF_A_CHILD = 3

MIB = 1024 * 1024
PARENT_BYTES = 96 * MIB
# Reserved of the cgroup's limit: a child over its limit keeps growing while it drains.
RESERVED_SHARE = 0.1
# Python and the handlers without a job: a lower limit could never be met.
LEAST_CHILD_BYTES = 128 * MIB
# Version 1 of cgroups says "no limit" with a number that no machine reaches.
ABSURD_BYTES = 1 << 60


@dataclass(slots=True, frozen=True)
class DescriptorPlan:
    """The soft limit to set (None: leave it), and a message for the operator, if any."""

    soft: int | None = None
    warning: str = ""


def descriptors_needed(groups: Iterable[ProcessGroup], connections: int) -> int:
    """Of the process that needs most: a job that fetches has about one socket."""
    groups = tuple(groups)
    of_child = max(group.slots for group in groups) + connections
    of_parent = DESCRIPTORS_OF_A_CHILD * sum(group.processes for group in groups)
    return max(of_child, of_parent) + RESERVED_DESCRIPTORS


def plan_descriptors(needed: int, soft: int, hard: int) -> DescriptorPlan:
    """Raise the soft limit to what is needed; if it cannot be, say what to set."""
    if _or_infinite(soft) >= needed:
        return DescriptorPlan()
    if _or_infinite(hard) >= needed:
        return DescriptorPlan(needed)
    return DescriptorPlan(
        hard,
        f"these slots may need {needed} open files in a process, and {hard} are allowed: "
        f"set `ulimit -n {needed}` where this is started",
    )


def memory_limit_of_child(
    setting_mb: int | None, cgroup_bytes: int | None, children: int
) -> int | None:
    """In bytes: what is set, else a share of what the cgroup allows, else none."""
    if setting_mb is not None:
        return setting_mb * MIB
    if cgroup_bytes is None:
        return None
    reserved = max(PARENT_BYTES, int(cgroup_bytes * RESERVED_SHARE))
    return max(LEAST_CHILD_BYTES, (cgroup_bytes - reserved) // children)


def cgroup_memory_bytes(root: Path = Path("/")) -> int | None:
    """The lowest limit of this process's cgroup and those above it; None without a limit."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    limits = [_read_limit(path) for line in lines for path in _limit_files(root, line)]
    return min((limit for limit in limits if limit is not None), default=None)


def raise_descriptor_limit(needed: int) -> str:
    """Children inherit it. Returns a message for the operator, if any."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    plan = plan_descriptors(needed, soft, hard)
    if plan.soft is not None and plan.soft != soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (plan.soft, hard))
    return plan.warning


def _or_infinite(limit: int) -> float:
    return inf if limit == resource.RLIM_INFINITY else limit


def _limit_files(root: Path, line: str) -> list[Path]:
    """Of one line of /proc/self/cgroup, `number:controllers:path`. A container may not see its own
    path, and has its limit at the top then."""
    _, controllers, path = line.split(":", 2)
    if not controllers:
        top, name = root / "sys/fs/cgroup", "memory.max"
    elif "memory" in controllers.split(","):
        top, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
    else:
        return []
    own = top / path.strip("/")
    return [directory / name for directory in (own, *own.parents) if directory.is_relative_to(top)]


def _read_limit(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() and int(text) < ABSURD_BYTES else None
