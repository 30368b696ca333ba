"""`manyhands` as a process: run to its end, or watched and interrupted."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil

from manyhands.shared.settings.names import VARIABLE_PREFIXES
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parent.parent.parent
# A command starts up to six processes; other tests use the processors at the same time.
TIMEOUT_S = 150


def environment(settings: dict[str, str]) -> dict[str, str]:
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(VARIABLE_PREFIXES)
    }
    return inherited | {"PYTHONPATH": str(ROOT)} | settings


def run_cli(
    directory: Path, *arguments: str, stdin: bytes = b"", **settings: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "manyhands.cli", *arguments],
        cwd=directory,
        env=environment(settings),
        input=stdin,
        capture_output=True,
        timeout=TIMEOUT_S,
    )


class RunningCli:
    """One that runs in the background; gone with the context."""

    def __init__(self, directory: Path, *arguments: str, **settings: str) -> None:
        self._log = directory / "cli.log"
        with self._log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "manyhands.cli", *arguments],
                cwd=directory,
                env=environment(settings),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    @property
    def said(self) -> str:
        return self._log.read_text()

    async def until(self, text: str) -> None:
        await eventually(
            lambda: text in self.said or self.process.poll() is not None,
            TIMEOUT_S,
            f"{text!r} was not said",
        )
        assert text in self.said, self.said

    async def ended(self) -> int:
        code = await eventually(
            lambda: None if self.process.poll() is None else [self.process.returncode],
            TIMEOUT_S,
            "it did not end",
        )
        assert code is not None
        return int(code[0])

    async def interrupted(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return await self.ended()

    def started(self, service: str) -> int:
        """The pid of a service that it has started."""
        (found,) = (
            child.pid
            for child in psutil.Process(self.process.pid).children()
            if child.cmdline()[1:3] == ["-m", f"manyhands.{service}"]
        )
        return found


def processes_in(directory: Path) -> list[int]:
    """Those that run there: services of a command that should be gone."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if Path(process.cwd()).is_relative_to(directory) and process.status() != "zombie":
                found.append(process.pid)
    return found
