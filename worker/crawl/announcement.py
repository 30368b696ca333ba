"""An event and its listeners; whoever announces it knows none of them."""

from collections.abc import Callable
from typing import Generic, ParamSpec

Told = ParamSpec("Told")


class Announcement(Generic[Told]):
    """State: who is told, in the order in which they asked for it."""

    def __init__(self) -> None:
        self._listeners: list[Callable[Told, None]] = []

    def tell(self, listener: Callable[Told, None]) -> None:
        """From now on."""
        self._listeners.append(listener)

    def __call__(self, *args: Told.args, **kwargs: Told.kwargs) -> None:
        for listener in self._listeners:
            listener(*args, **kwargs)
