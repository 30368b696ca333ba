"""Runs sequences on both servers and compares each answer and all that is behind it."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from devservers import BrokerServer, FaktoryServer
from tests.support.twins.commands import HELD, Maker, Sequence
from tests.support.twins.differences import Difference, excuse
from tests.support.twins.servers import CLOSED, BrokerSide, FaktorySide, State

LENGTH = 25
# A FETCH that finds nothing takes Faktory two seconds: so many of them are sent.
EMPTY_FETCHES = 2
MAX_SHRINKS = 120


@dataclass(slots=True)
class Tally:
    """What was compared; which differences were met and how often, by their id in the list."""

    commands: int = 0
    sequences: int = 0
    met: Counter[str] = field(default_factory=Counter)


class Unexplained(AssertionError):
    """Both servers answered differently, or hold different jobs, and the list does not say so."""


@contextmanager
def twins(faktory: FaktoryServer, broker: BrokerServer) -> Iterator["Twins"]:
    theirs, ours = FaktorySide(faktory), BrokerSide(broker)
    try:
        yield Twins(theirs, ours)
    finally:
        theirs.close()
        ours.close()


class Twins:
    """State: both sides, what was met so far, and how many FETCHes may still wait for nothing."""

    def __init__(self, theirs: FaktorySide, ours: BrokerSide) -> None:
        self._theirs = theirs
        self._ours = ours
        self.tally = Tally()
        self._empty_fetches = EMPTY_FETCHES

    def compare(self, seed: int, commands: int) -> Tally:
        """Play sequences until so many commands were compared."""
        while self.tally.commands < commands:
            self.tally.sequences += 1
            sequence = Maker(seed, self.tally.sequences).sequence(LENGTH)
            found = self.play(sequence)
            if found is not None:
                shortest, found = self._shrink(sequence, found)
                shown = "\n".join((shortest.hello, *shortest.lines))
                raise Unexplained(
                    f"seed {seed}, sequence {sequence.number}, at its shortest:\n{shown}\n\n{found}"
                )
        return self.tally

    def play(self, sequence: Sequence) -> Difference | None:
        """The first difference that is not on the list."""
        theirs, ours = self._theirs, self._ours
        theirs.begin()
        ours.begin()
        history: list[str] = []
        before = theirs.state()
        for line in (sequence.hello, *sequence.lines):
            sent = line.replace(HELD, theirs.held[-1] if theirs.held else "nobody-has-it")
            if self._would_wait(sent, history, before):
                continue
            history.append(sent)
            self.tally.commands += 1
            answers = theirs.call(sent), ours.call(sent)
            if sent.startswith("PUSH ") and not sequence.is_default_left:
                theirs.restore_default()
            states = before, _ = theirs.state(), ours.state()
            is_over = CLOSED in answers
            for kind, (one, other) in (("answer", answers), ("state", states)):
                if one == other:
                    continue
                found = Difference(kind, one, other, tuple(history), sequence)
                names = excuse(found)
                if not names:
                    return found
                self.tally.met.update(names)
                # From here on they hold different jobs, or others of the same are in hand.
                is_over = is_over or kind == "state" or sent.startswith("FETCH ")
            if is_over:
                break
        return None

    def _would_wait(self, line: str, history: list[str], before: State) -> bool:
        """Whether it is a FETCH that finds nothing, one too many."""
        is_quiet = any('"quiet"' in past or '"terminate"' in past for past in history)
        if line == "FETCH" and is_quiet:
            return True  # Faktory does not look whether a queue is named before it waits
        if not line.startswith("FETCH "):
            return False
        names = set(line.split(" ")[1:]) - set(before["paused"])
        if not is_quiet and names & before["queues"].keys():
            return False
        self._empty_fetches -= 1
        return self._empty_fetches < 0

    def _shrink(self, sequence: Sequence, found: Difference) -> tuple[Sequence, Difference]:
        """Leave lines out, one after the other, as long as something unexplained remains."""
        tries, position = 0, len(sequence.lines) - 1
        while position >= 0 and tries < MAX_SHRINKS:
            fewer = [*sequence.lines[:position], *sequence.lines[position + 1 :]]
            still = self.play(replace(sequence, lines=fewer))
            if still is not None:
                sequence, found = replace(sequence, lines=fewer), still
            tries, position = tries + 1, position - 1
        return sequence, found
