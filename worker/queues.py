"""The order in which a FETCH names its queues: strict, or by weight. Pure.

The server serves the queues of a FETCH in the order in which they stand. `a,b` is strict: b only
when a is empty. `a:3,b:1` puts a first in three of four FETCHes, and rotates the rest, so that
none starves.
"""

from dataclasses import dataclass
from itertools import cycle
from typing import Self

from shared.errors import ConfigError, InvalidJob
from shared.faktory import codec
from shared.jobs import check_queue_name

MAX_WEIGHT = 100


@dataclass(slots=True, frozen=True)
class QueueOrder:
    """Queue names with weights; all weights None means strict order."""

    weights: tuple[tuple[str, int | None], ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        weights = tuple(_parse_entry(entry.strip()) for entry in text.split(",") if entry.strip())
        if not weights:
            raise ConfigError("WORKER_QUEUES names no queue")
        if len({name for name, _ in weights}) != len(weights):
            raise ConfigError(f"WORKER_QUEUES names a queue twice: {text}")
        if len({weight is None for _, weight in weights}) != 1:
            raise ConfigError(f"WORKER_QUEUES: give every queue a weight or none: {text}")
        return cls(weights)

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.weights]

    def rounds(self) -> list[list[str]]:
        """The orders to go through, one per FETCH, then from the start again."""
        if len(self.weights) == 1 or self.weights[0][1] is None:
            return [self.names]
        heads = _smooth_heads({name: weight or 0 for name, weight in self.weights})
        rounds = []
        for number, head in enumerate(heads):
            others = [name for name in self.names if name != head]
            turn = number % len(others)
            rounds.append([head, *others[turn:], *others[:turn]])
        return rounds

    def fetch_lines(self) -> "cycle[bytes]":
        return cycle([codec.fetch(names) for names in self.rounds()])


def _parse_entry(entry: str) -> tuple[str, int | None]:
    name, has_weight, weight = entry.partition(":")
    try:
        check_queue_name(name)
    except InvalidJob as error:
        raise ConfigError(f"WORKER_QUEUES: {error}") from None
    if not has_weight:
        return name, None
    if not (weight.isascii() and weight.isdecimal()) or not 1 <= int(weight) <= MAX_WEIGHT:
        raise ConfigError(f"WORKER_QUEUES: the weight of {name} must be 1 to {MAX_WEIGHT}")
    return name, int(weight)


def _smooth_heads(weights: dict[str, int]) -> list[str]:
    """Each name as often as its weight says, spread evenly (smooth weighted round robin)."""
    total = sum(weights.values())
    standing = dict.fromkeys(weights, 0)
    heads = []
    for _ in range(total):
        for name, weight in weights.items():
            standing[name] += weight
        head = max(standing, key=standing.__getitem__)
        standing[head] -= total
        heads.append(head)
    return heads
