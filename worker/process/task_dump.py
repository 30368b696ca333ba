"""What all tasks of a process are doing, in a few lines: thousands wait at the same place."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

MOST_PLACES = 40
ASYNCIO = str(Path(asyncio.__file__).parent)


def describe_tasks(tasks: Iterable[asyncio.Task[object]]) -> list[str]:
    """`1204 × job at worker/handlers/add.py:12 in add`, the most frequent first."""
    places = Counter(f"{task.get_name()} at {_place(task)}" for task in tasks)
    lines = [f"{count} × {place}" for place, count in places.most_common(MOST_PLACES)]
    if (left_out := len(places) - len(lines)) > 0:
        lines.append(f"and {left_out} more places")
    return lines


def _place(task: asyncio.Task[object]) -> str:
    """The innermost waiting frame outside asyncio; a task's own stack shows only the outermost
    one."""
    awaited: Any = task.get_coro()
    place = "its start"
    while (frame := getattr(awaited, "cr_frame", None)) is not None:
        if not frame.f_code.co_filename.startswith(ASYNCIO):
            place = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
        awaited = awaited.cr_await
    return place
