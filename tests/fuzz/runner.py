"""Drive one target for some seconds, and say what came of it.

Inputs come in batches, each with a seed of its own: Hypothesis remembers what it has tried, and
that memory must not be taken for the target's. The first fault ends the run; the input that did it
lies in a file that can be replayed, also where it took the process with it.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from tests.acceptance.scale import IS_PROOF
from tests.fuzz.inputs import Pieces
from tests.fuzz.targets import Target

CORPUS = Path(__file__).resolve().parent / "corpus"
BATCH = 100
# Who waits longer was kept waiting by the input, unless the machine did it: then once only.
# Beside other tests on two cores a second is nobody's fault; `make prove` has the real limit.
STALL_S = 0.5 if IS_PROOF else 2.0
TRIES = 3
# Behind this share of the time all caches are warm, and memory must not grow any more but by what
# an allocator makes of it.
WARM_SHARE = 0.25
MOST_GROWTH_BYTES = 48 * 2**20
MOST_RSS_BYTES = 512 * 2**20


@dataclass(slots=True)
class Outcome:
    """`slowest_s` is of the input that kept others waiting longest; memory in bytes."""

    target: str
    seed: int
    inputs: int = 0
    slowest_s: float = 0.0
    warm_rss: int = 0
    end_rss: int = 0
    peak_rss: int = 0
    failure: str = ""
    file: str = ""

    @property
    def grown_bytes(self) -> int:
        return self.end_rss - self.warm_rss if self.warm_rss else 0

    def to_json(self) -> str:
        return json.dumps(asdict(self) | {"grown_bytes": self.grown_bytes})


@dataclass(slots=True)
class Fuzzing:
    """One run. State: the outcome so far, and the file of the input in hand."""

    name: str
    target: Target
    out: Path
    seed: int
    outcome: Outcome = field(init=False)

    def __post_init__(self) -> None:
        self.outcome = Outcome(self.name, self.seed)
        self.out.mkdir(parents=True, exist_ok=True)

    def run(self, seconds: float) -> Outcome:
        for file in sorted((CORPUS / self.name).glob("*.json")):
            self._try(read_input(file))
        began = time.monotonic()
        until = began + seconds
        number = 0
        while not self.outcome.failure and (number == 0 or time.monotonic() < until):
            self._batch(number, until)
            number += 1
            self._look_at_memory(is_warm=time.monotonic() - began >= seconds * WARM_SHARE)
        if not self.outcome.failure:
            self._judge_growth()
        return self.outcome

    def replay(self, file: Path) -> Outcome:
        self._try(read_input(file))
        self._look_at_memory(is_warm=True)
        return self.outcome

    def _batch(self, number: int, until: float) -> None:
        def one(pieces: Pieces) -> None:
            # Raised in here, Hypothesis would try it again and look for a smaller one.
            if not self.outcome.failure and time.monotonic() < until:
                self._try(pieces)

        _hypothesis(self.seed * 1_000_003 + number, self.target.inputs, one)

    def _try(self, pieces: Pieces) -> None:
        file = self.out / f"{self.name}-{self.seed}.json"
        write_input(file, pieces)
        try:
            took_s = self._held_s(pieces)
        except Exception as error:
            self._fail(file, f"{type(error).__name__}: {error}")
            return
        self.outcome.inputs += 1
        self.outcome.slowest_s = max(self.outcome.slowest_s, took_s)
        if took_s > STALL_S:
            self._fail(file, f"others waited for {took_s:.2f} s")

    def _held_s(self, pieces: Pieces) -> float:
        """The shortest of some tries, if the first was too long."""
        took_s = self.target.run(pieces)
        for _ in range(TRIES - 1):
            if took_s <= STALL_S:
                break
            took_s = min(took_s, self.target.run(pieces))
        return took_s

    def _fail(self, file: Path, reason: str) -> None:
        if not self.outcome.failure:
            self.outcome.failure = reason
            self.outcome.file = str(file)

    def _look_at_memory(self, *, is_warm: bool) -> None:
        if self.outcome.failure:
            return
        try:
            self.target.settle()
        except Exception as error:
            self._fail(self.out, f"after a batch: {type(error).__name__}: {error}")
            return
        outcome = self.outcome
        outcome.end_rss = self.target.rss_bytes()
        outcome.peak_rss = max(outcome.peak_rss, outcome.end_rss)
        if is_warm and not outcome.warm_rss:
            outcome.warm_rss = outcome.end_rss

    def _judge_growth(self) -> None:
        outcome = self.outcome
        if outcome.grown_bytes > MOST_GROWTH_BYTES:
            outcome.failure = f"grew by {outcome.grown_bytes / 2**20:.0f} MB"
        elif outcome.peak_rss > MOST_RSS_BYTES:
            outcome.failure = f"had {outcome.peak_rss / 2**20:.0f} MB"


def _hypothesis(number: int, inputs: SearchStrategy[Pieces], one: Callable[[Pieces], None]) -> None:
    """One batch, generated from this number."""
    options = settings(
        max_examples=BATCH,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    def test(pieces: Pieces) -> None:
        one(pieces)

    seed(number)(options(given(inputs)(test)))()


def write_input(file: Path, pieces: Pieces) -> None:
    """Every byte is one character, so that people can read most of it."""
    file.write_text(json.dumps([piece.decode("latin-1") for piece in pieces]))


def read_input(file: Path) -> Pieces:
    return [piece.encode("latin-1") for piece in json.loads(file.read_text())]
