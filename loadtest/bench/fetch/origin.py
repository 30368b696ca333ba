"""The server of `bench-fetch`: go/origin, built and run as a process on a core of its own."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from loadtest.lib.errors import RunError
from loadtest.lib.programs import build_own


@dataclass(frozen=True, slots=True)
class Announcement:
    """What the program prints when it listens; `authority` is the PEM to trust."""

    http_port: int
    https_port: int
    authority: str


def build_origin() -> Path:
    """Build the program and return it; a second call is quick."""
    return build_own("origin")


class Origin:
    """Started and ended as a context. State: the process."""

    def __init__(self, program: Path, think_ms: int, core: int) -> None:
        self._command = [str(program), "-think", f"{think_ms}ms"]
        self._core = core
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Announcement:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        # Before it has threads: they inherit it.
        os.sched_setaffinity(self._process.pid, {self._core})
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RunError("the origin did not start")
        return Announcement(**json.loads(line))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # It ends with its input.
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(10)
