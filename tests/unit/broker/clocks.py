"""The clocks of the broker, set by a test."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from manyhands.broker import (
    fetches,
    handout,
    intake,
    manager,
    reservations,
    server,
    sets,
    turns,
)


def set_clocks(
    patch: pytest.MonkeyPatch, *, wall: Callable[[], float], monotonic: Callable[[], float]
) -> None:
    """For all that looks at a clock above the store."""
    clock = SimpleNamespace(time=wall, monotonic=monotonic)
    for module in (fetches, handout, intake, manager, reservations, server, sets, turns):
        patch.setattr(module, "time", clock)
