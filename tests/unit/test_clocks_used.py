"""Who may look at the wall clock: everything else waits, and nobody sets the monotonic one."""

import re

from tests.support.imports import ROOT

WALL_CLOCK = re.compile(r"\btime\.time\b|from time import")
# What is shown, what is scheduled, and what begins with it (the store's own clock, ages of files).
MAY_LOOK = {
    "broker/handout.py",
    "broker/intake.py",
    "broker/manager.py",
    "broker/process.py",
    "broker/reservations.py",
    "broker/sets.py",
    "broker/verbs.py",
    "shared/crawl/store/clock.py",
    "worker/sinks/files/file_sink.py",
    "worker/sinks/files/line_files.py",
    "worker/sinks/files/markdown.py",
    "worker/supervision/cloudwatch.py",
    "worker/supervision/cloudwatch_put.py",
    "worker/supervision/child_slot.py",
    "worker/supervision/supervisor.py",
}


def test_only_what_shows_or_schedules_looks_at_the_wall_clock():
    looking = {
        str(path.relative_to(ROOT))
        for package in ("api", "broker", "cli", "shared", "worker")
        for path in (ROOT / package).rglob("*.py")
        if WALL_CLOCK.search(path.read_text())
    }
    assert looking == MAY_LOOK
