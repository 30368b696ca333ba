"""Ends the servers of a Python process that is gone, however it went (kill -9 too).

processes.py runs this file as a script, one for each Python process that starts servers, and writes
each change to its stdin; the end of stdin means that the process is gone. PR_SET_PDEATHSIG would be
shorter, but it fires at the end of the starting *thread* and does not reach grandchildren.
"""

import os
import shutil
import signal
import sys
import time

# Seconds that servers get to end by themselves before they are killed.
GRACE = 2.0


def watch() -> tuple[set[int], set[str]]:
    """Follow stdin to its end; return the process groups and directories that are still there."""
    groups: set[int] = set()
    directories: set[str] = set()
    for line in sys.stdin:
        action, value = line.rstrip("\n").split(" ", 1)
        match action:
            case "group":
                groups.add(int(value))
            case "group-gone":
                groups.discard(int(value))
            case "directory":
                directories.add(value)
            case "directory-gone":
                directories.discard(value)
    return groups, directories


def signalled(group: int, number: int) -> bool:
    """Signal a process group; return whether there is one."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True


def reap(groups: set[int], directories: set[str]) -> None:
    left = {group for group in groups if signalled(group, signal.SIGTERM)}
    deadline = time.monotonic() + GRACE
    while left and time.monotonic() < deadline:
        time.sleep(0.02)
        left = {group for group in left if signalled(group, 0)}
    for group in left:
        signalled(group, signal.SIGKILL)
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    reap(*watch())
