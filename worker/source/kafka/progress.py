"""How far one partition is: what was received, what is done, and what may be committed. Pure.

Records end in any order. The base is the first offset that is not done; all before it may be
committed. What is done beyond it goes into the commit's metadata (done_map.py). Base and map are
read as one value, so a commit can never say one without the other.

Offsets have gaps: a compacted topic has lost some, a transaction takes one for its marker. Only
those that were received are counted. A record that was done before a restart is received again
and counts as done at once.

`may_start` keeps the map writable: a record that is too far from the base waits until the base has
come closer. One that never ends therefore stops its partition in the end, but not before tens of
thousands of others, or millions where few are in flight.
"""

from collections import deque
from dataclasses import dataclass
from itertools import takewhile

from manyhands.worker.source.kafka.done_map import (
    NOTHING_DONE,
    DoneMap,
    decode,
    encode,
    fits,
)


@dataclass(slots=True, frozen=True)
class Commit:
    """Everything before `offset` is done, and beyond it what `metadata` says."""

    offset: int
    metadata: str


@dataclass(slots=True, frozen=True)
class Received:
    """A record that is to be run: its offset, and how many were received before it."""

    offset: int
    number: int


class Progress:
    """State: the received offsets from the base on, in order, and how many are behind it; which of
    them are done; the highest that was started."""

    def __init__(self, base: int, before: DoneMap = NOTHING_DONE) -> None:
        self.next_offset = base
        # Done before the restart is what lies in front of this, but for those; in order.
        self._before_ends = base + before.span
        self._open_before = dict.fromkeys(base + distance for distance in before.open_)
        self._received: deque[int] = deque()
        self._behind = 0
        self._done: set[int] = set()
        self._top = base - 1

    @staticmethod
    def resumed(offset: int, metadata: str) -> "Progress":
        """After a commit. Metadata of somebody else says nothing."""
        return Progress(offset, decode(metadata) or NOTHING_DONE)

    @property
    def base(self) -> int:
        """The first offset that is not done; where to read on after a restart."""
        return self._received[0] if self._received else self.next_offset

    @property
    def incomplete(self) -> int:
        """Received and not done."""
        return len(self._received) - len(self._done)

    def received(self, offset: int) -> Received | None:
        """The next record of the partition; None if it was done before the restart."""
        if offset < self.next_offset:
            raise ValueError(f"offset {offset} after {self.next_offset - 1}")
        self.next_offset = offset + 1
        self._received.append(offset)
        if offset >= self._before_ends or offset in self._open_before:
            return Received(offset, self._behind + len(self._received) - 1)
        self._top = offset
        self.done(offset)
        return None

    def may_start(self, record: Received) -> bool:
        """Whether the map could be written whatever ends next."""
        if record.offset <= self._top:
            return True
        open_ = record.number + 1 - self._behind - len(self._done)
        return fits(open_, record.offset + 1 - self.base)

    def started(self, record: Received) -> None:
        self._top = max(self._top, record.offset)

    def done(self, offset: int) -> None:
        """Once for each that was started."""
        received, done = self._received, self._done
        done.add(offset)
        while received and received[0] in done:
            done.remove(received.popleft())
            self._behind += 1

    def commit(self) -> Commit:
        base = self.base
        open_ = [offset for offset in self._received if offset not in self._done]
        last = max(self._done, default=base - 1)
        if self.next_offset < self._before_ends:
            # The rest of what was done before the restart, and has not been received again.
            open_ += [offset for offset in self._open_before if offset >= self.next_offset]
            last = self._before_ends - 1
        below = takewhile(lambda offset: offset < last, open_)
        return Commit(base, encode(last + 1 - base, [offset - base for offset in below]))
