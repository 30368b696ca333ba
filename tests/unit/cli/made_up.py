"""An API that answers what it is told to."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from manyhands.cli.api_client import Api


class ScriptedApi(Api):
    """State: the bodies that came. `answers` are by method and path."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers = answers
        self.bodies: list[Any] = []

    async def ask(self, method: str, path: str, **how: Any) -> Any:
        self.bodies.append(how.get("json"))
        return self._answers[f"{method} {path}"]

    @asynccontextmanager
    async def opened(self, url: str, key: str | None = None) -> AsyncIterator[Api]:
        yield self
