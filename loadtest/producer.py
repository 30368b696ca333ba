"""The pusher as a process beside the benchmark, so that neither waits for the other."""

import json
import subprocess
import sys
from dataclasses import asdict
from types import TracebackType
from typing import Self

from loadtest.consumers import ROOT
from loadtest.lab import RunError
from loadtest.pusher import Order, Pushed


class Producer:
    """A pusher that has made its jobs and is connected; a context manager.

    State: the process.
    """

    def __init__(self, order: Order) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "loadtest.pusher", json.dumps(asdict(order))],
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

    def result(self) -> Pushed:
        """Wait until it has pushed; a pusher ends by itself when a server falls silent."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RunError(self._reason())
        return Pushed(**json.loads(line))

    def _reason(self) -> str:
        _, errors = self._process.communicate()
        return errors.strip()[-500:] or "the pusher ended without a word"


def push(order: Order) -> Pushed:
    with Producer(order) as producer:
        producer.go()
        return producer.result()
