"""The order in which a FETCH names its queues: strict, or by weight. Pure.

The server serves the queues of a FETCH in the given order. `a,b` is strict: b only when a is empty.
`a:3,b:1` puts a first in three of four FETCHes, and rotates the rest, so that none starves.
`fetch.*` stands for the queues of all shards: one entry with one weight, whose queues take turns.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from math import gcd, lcm
from typing import Self

from manyhands.shared.crawl.messages import ALL_CRAWL_QUEUES
from manyhands.shared.errors import ConfigError, InvalidJob
from manyhands.shared.faktory import codec
from manyhands.shared.jobs import check_queue_name
from manyhands.shared.urls import FETCH_QUEUE, shard_queues

MAX_WEIGHT = 100
# From the queues of shards: jobs of one shard that come together share a transaction of its store.
FETCHES_IN_A_ROW = 16
ALL_SHARDS = f"{FETCH_QUEUE}.*"
# Those of crawls have the tag of a store in their names: the stage's service names them.
_QUEUES_OF_ALL: dict[str, Callable[[int], list[str]]] = {
    ALL_SHARDS: shard_queues,
    ALL_CRAWL_QUEUES: lambda _shards: [],
}


@dataclass(slots=True, frozen=True)
class Entry:
    """One queue, or those of all shards."""

    names: tuple[str, ...]
    weight: int | None

    def turned(self, turn: int) -> tuple[str, ...]:
        at = turn % len(self.names)
        return self.names[at:] + self.names[:at]


@dataclass(slots=True, frozen=True)
class QueueOrder:
    """Entries with weights; all weights None means strict order. An order is kept for so many
    FETCHes."""

    entries: tuple[Entry, ...]
    kept_for: int = 1

    @classmethod
    def parse(cls, text: str, shards: int) -> Self:
        entries = tuple(
            _parse_entry(entry.strip(), shards) for entry in text.split(",") if entry.strip()
        )
        if not entries:
            raise ConfigError("WORKER_QUEUES names no queue")
        names = [name for entry in entries for name in entry.names]
        if len(set(names)) != len(names):
            raise ConfigError(f"WORKER_QUEUES names a queue twice: {text}")
        if len({entry.weight is None for entry in entries}) != 1:
            raise ConfigError(f"WORKER_QUEUES: give every queue a weight or none: {text}")
        return cls(entries)

    @classmethod
    def in_turns(cls, names: Sequence[str]) -> Self:
        """One entry: each queue is first as often as any other."""
        return cls((Entry(tuple(names), None),), kept_for=FETCHES_IN_A_ROW)

    @property
    def names(self) -> list[str]:
        return [name for entry in self.entries for name in entry.names]

    def rounds(self) -> list[list[str]]:
        """The orders to go through, one per FETCH, then from the start again."""
        heads = self._heads()
        repeats = 1
        for entry in self.entries:
            turns = 1 if self._is_strict else heads.count(entry)
            repeats = lcm(repeats, len(entry.names) // gcd(turns, len(entry.names)))
        return list(islice(self._endless_rounds(heads), repeats * len(heads)))

    def fetch_lines(self) -> Iterator[bytes]:
        if len(self.names) == len(self.entries):
            return cycle([codec.fetch(names) for names in self.rounds()])
        # Made one by one: with many shards, all orders together would fill the memory.
        lines = map(codec.fetch, self._endless_rounds(self._heads()))
        return (line for line in lines for _ in range(self.kept_for))

    @property
    def _is_strict(self) -> bool:
        return self.entries[0].weight is None

    def _heads(self) -> list[Entry]:
        """Which entry comes first, FETCH after FETCH."""
        if len(self.entries) == 1 or self._is_strict:
            return [self.entries[0]]
        return _smooth_heads(self.entries)

    def _endless_rounds(self, heads: list[Entry]) -> Iterator[list[str]]:
        # Each entry counts its own turns: with a common count some shards would never be first.
        turns = dict.fromkeys(self.entries, 0)
        for number, head in enumerate(cycle(heads)):
            others = [entry for entry in self.entries if entry != head]
            turn = number % len(heads) % len(others) if others and not self._is_strict else 0
            order = [head, *others[turn:], *others[:turn]]
            yield [name for entry in order for name in entry.turned(turns[entry])]
            for entry in self.entries if self._is_strict else (head,):
                turns[entry] += 1


def _parse_entry(entry: str, shards: int) -> Entry:
    name, has_weight, weight = entry.partition(":")
    of_all = _QUEUES_OF_ALL.get(name)
    names = (name,) if of_all is None else tuple(of_all(shards))
    try:
        for one in names:
            check_queue_name(one)
    except InvalidJob as error:
        raise ConfigError(f"WORKER_QUEUES: {error}") from None
    if not has_weight:
        return Entry(names, None)
    if not (weight.isascii() and weight.isdecimal()) or not 1 <= int(weight) <= MAX_WEIGHT:
        raise ConfigError(f"WORKER_QUEUES: the weight of {name} must be 1 to {MAX_WEIGHT}")
    return Entry(names, int(weight))


def _smooth_heads(entries: tuple[Entry, ...]) -> list[Entry]:
    """Each as often as its weight says, spread evenly (smooth weighted round robin)."""
    total = sum(entry.weight or 0 for entry in entries)
    standing = dict.fromkeys(entries, 0)
    heads = []
    for _ in range(total):
        for entry in entries:
            standing[entry] += entry.weight or 0
        head = max(standing, key=standing.__getitem__)
        standing[head] -= total
        heads.append(head)
    return heads
