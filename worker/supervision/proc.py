"""How much processor time another process has used, from /proc."""

import os
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Of /proc/pid/stat, counted after the name, which may hold spaces.
USER_TICKS, SYSTEM_TICKS = 11, 12


def cpu_seconds(pid: int) -> float | None:
    """Of all its threads, since its start; None where there is no /proc, or no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return (int(fields[USER_TICKS]) + int(fields[SYSTEM_TICKS])) / TICKS_PER_S
