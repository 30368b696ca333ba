"""What the system tells of another process: memory and processor time, from /proc. None where
there is no /proc, or no such process."""

import os
import resource
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Of /proc/pid/stat, counted after the name, which may hold spaces.
USER_TICKS, SYSTEM_TICKS = 11, 12


def resident_bytes(pid: int) -> int | None:
    fields = _fields(pid, "statm")
    return int(fields[1]) * resource.getpagesize() if fields else None


def cpu_seconds(pid: int) -> float | None:
    """Of all its threads, since its start."""
    fields = _fields(pid, "stat")
    if not fields:
        return None
    return (int(fields[USER_TICKS]) + int(fields[SYSTEM_TICKS])) / TICKS_PER_S


def _fields(pid: int, name: str) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/{name}").read_text()
    except OSError:
        return []
    return text.rpartition(")")[2].split()
