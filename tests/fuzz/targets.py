"""What a target of the fuzzers is, and what those in our own process have in common."""

import gc
import time
from typing import Protocol, Self

import psutil
from hypothesis.strategies import SearchStrategy

from tests.fuzz.inputs import Pieces


class Fault(Exception):
    """What must not happen; the message says what did."""


class Target(Protocol):
    """A context manager."""

    inputs: SearchStrategy[Pieces]

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def run(self, pieces: Pieces) -> float:
        """How long this input kept others waiting, in seconds. Raises Fault, or whatever the
        target raises that it must not."""

    def settle(self) -> None:
        """Let go of what inputs may rightly leave behind, before memory is looked at."""

    def rss_bytes(self) -> int: ...


# Of our own work: that others have the processor, too, is nothing that an input did.
stopwatch = time.process_time


class InProcess:
    """Subclasses have the inputs, and `call`, which raises nothing that is not a fault."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was started."""

    def call(self, pieces: Pieces) -> None:
        raise NotImplementedError

    def run(self, pieces: Pieces) -> float:
        began = stopwatch()
        self.call(pieces)
        return stopwatch() - began

    def settle(self) -> None:
        gc.collect()

    def rss_bytes(self) -> int:
        return psutil.Process().memory_info().rss
