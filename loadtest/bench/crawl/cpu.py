"""What the processes of a crawl have used, by what each does: processor time and memory."""

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

KIB = 1024
OTHER = "other"


@dataclass(slots=True)
class Usage:
    """Processor seconds since the start of each. `total_s` has those of ended processes, too."""

    total_s: float = 0.0
    # By role: of the whole process, and of all its threads but the first.
    by_role: dict[str, float] = field(default_factory=dict)
    of_threads: dict[str, float] = field(default_factory=dict)

    def since(self, before: "Usage") -> "Usage":
        return Usage(
            self.total_s - before.total_s,
            _difference(self.by_role, before.by_role),
            _difference(self.of_threads, before.of_threads),
        )


def _difference(now: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    return {role: used_s - before.get(role, 0.0) for role, used_s in now.items()}


def usage_of(roots: Iterable[int], roles: Mapping[int, str]) -> Usage:
    """Of these processes and all their descendants; `roles` by pid."""
    usage = Usage()
    for process in _with_descendants(roots):
        with contextlib.suppress(psutil.NoSuchProcess):
            _add(usage, process, roles.get(process.pid, OTHER))
    return usage


def _add(usage: Usage, process: psutil.Process, role: str) -> None:
    times = process.cpu_times()
    threads = process.threads()
    own_s = times.user + times.system
    first_s = sum(one.user_time + one.system_time for one in threads if one.id == process.pid)
    # What it was told of children that have ended: they are no longer found themselves.
    usage.total_s += own_s + times.children_user + times.children_system
    usage.by_role[role] = usage.by_role.get(role, 0.0) + own_s
    usage.of_threads[role] = usage.of_threads.get(role, 0.0) + max(0.0, own_s - first_s)


def peak_rss_bytes(roots: Iterable[int]) -> int:
    """The most memory that each had so far, added up."""
    return sum(_peak_bytes(process.pid) for process in _with_descendants(roots))


def _peak_bytes(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * KIB
    return 0


def _with_descendants(roots: Iterable[int]) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for pid in roots:
        with contextlib.suppress(psutil.NoSuchProcess):
            root = psutil.Process(pid)
            found += [root, *root.children(recursive=True)]
    return found
