"""How much memory processes use, and what the C library does with it."""

import ctypes
import resource
from pathlib import Path

# Of mallopt(3).
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
LARGE_BLOCK_BYTES = 1024 * 1024
KEPT_BYTES = 32 * 1024 * 1024


def give_back_large_blocks() -> None:
    """Have each of them be a mapping of its own, always. Else the C library soon keeps them, of all
    large jobs together; and to let one of them grow it copies it, where the system only moves it:
    the parser of HTML lets the list of a page's faults grow by 128 at a time."""
    _set(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)


def keep_free_memory() -> None:
    """Have the C library keep so much that is free, for the next page: to give it back to the
    system and to ask for it again was a third of the cost of a page."""
    _set(M_TRIM_THRESHOLD, KEPT_BYTES)


def _set(parameter: int, value: int) -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # glibc's
        mallopt(parameter, value)


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
