"""An event and its listeners; the announcing part knows none of them."""

from collections.abc import Callable
from typing import Generic, ParamSpec

Told = ParamSpec("Told")


class Announcement(Generic[Told]):
    """State: the listeners, in the order in which they are called."""

    def __init__(self) -> None:
        self._listeners: list[Callable[Told, None]] = []

    def tell(self, listener: Callable[Told, None]) -> None:
        """Call this listener from now on."""
        self._listeners.append(listener)

    def __call__(self, *args: Told.args, **kwargs: Told.kwargs) -> None:
        for listener in self._listeners:
            listener(*args, **kwargs)
