"""A module of the load test as a process that works when it is told to.

It gets its order as JSON, gets ready, says so, waits for a word, works, and prints what came of it
as JSON. So several begin at the same moment, and none is measured while it starts.
"""

import json
import subprocess
import sys
from types import TracebackType
from typing import Any, Self

from devservers.checkout import ROOT
from loadtest.lib.errors import RunError


class Prompted:
    """This side of it; a context manager, in which the process is ready. State: the process."""

    def __init__(self, module: str, order: dict[str, Any]) -> None:
        self._module = module
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, json.dumps(order)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise RunError(self._reason())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        # Collects it and closes the pipes.
        self._process.communicate()

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Wait until it has done its work."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RunError(self._reason())
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _reason(self) -> str:
        _, errors = self._process.communicate()
        return errors.strip()[-500:] or f"{self._module} ended without a word"
