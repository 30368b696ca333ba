"""A profile of the process that imports this, from one signal to the next: for a child of our
worker, WORKER_HANDLERS=loadtest.lab.handlers,loadtest.lib.profiling.

Of the thread that runs the event loop, and by its calls (cProfile), which makes small functions
look larger than they are. What is left of the thread's processor time is the event loop itself,
which is not Python: reading and writing sockets, timers.
"""

import cProfile
import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

from devservers.checkout import ROOT

# Names the file that the profile is written to, as JSON: seconds by what they were spent on. Where
# the mark stands in it, the process puts its pid: several may get the same name.
FILE_VARIABLE = "LOADTEST_PROFILE"
PID_MARK = "{pid}"
# One that the worker has no use for.
SIGNAL = signal.SIGRTMIN
EVENT_LOOP = "uvloop and the kernel: sockets, timers"


def label_of(code: CodeType | str) -> str:
    """Name a function without naming this machine's directories."""
    if isinstance(code, str):
        return code.strip("<>")
    return f"{place_of(code.co_filename)} {code.co_qualname}"


def place_of(file: str) -> str:
    """Return the file as seen from the repository, or from where packages are."""
    # Our modules are found by links.
    path = Path(file).resolve()
    if path.is_relative_to(ROOT) and "site-packages" not in path.parts:
        return str(path.relative_to(ROOT))
    return "/".join(path.parts[-2:])


def own_seconds(entries: list[tuple[CodeType | str, float]], thread_s: float) -> dict[str, float]:
    """Add up by name, and give what is left to the event loop."""
    seconds: dict[str, float] = {}
    for code, own_s in entries:
        label = label_of(code)
        seconds[label] = seconds.get(label, 0.0) + own_s
    seconds[EVENT_LOOP] = max(0.0, thread_s - sum(seconds.values()))
    return seconds


@dataclass(slots=True)
class Profiler:
    """State: what is being measured, if anything is."""

    file: Path
    profile: cProfile.Profile | None = None
    began_s: float = 0.0

    def toggle(self, _signal: int, _frame: object) -> None:
        if self.profile is None:
            self.profile, self.began_s = cProfile.Profile(), time.thread_time()
            self.profile.enable()
            return
        self.profile.disable()
        thread_s = time.thread_time() - self.began_s
        entries = [(entry.code, entry.inlinetime) for entry in self.profile.getstats()]
        self.profile = None
        # In one step: whoever waits for the file finds all of it.
        unfinished = self.file.with_suffix(".part")
        unfinished.write_text(json.dumps(own_seconds(entries, thread_s)))
        unfinished.rename(self.file)


if FILE_VARIABLE in os.environ:
    _name = os.environ[FILE_VARIABLE].replace(PID_MARK, str(os.getpid()))
    signal.signal(SIGNAL, Profiler(Path(_name)).toggle)
