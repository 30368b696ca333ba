"""How much memory processes use."""

import resource
from pathlib import Path


def resident_bytes(pid: int | None = None) -> int | None:
    """Of a process, or of this one; None where there is no /proc, or no such process."""
    try:
        pages = Path(f"/proc/{pid or 'self'}/statm").read_text().split()[1]
    except OSError:
        return None
    return int(pages) * resource.getpagesize()


def own_resident_bytes() -> int:
    """Of this process; its peak where the current figure is not available (not Linux, or no file
    descriptor left)."""
    now = resident_bytes()
    return now if now is not None else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
