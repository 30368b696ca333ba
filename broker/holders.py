"""Connections that hold something worth counting, and which of them have to give it up. Pure."""

from typing import Protocol

from manyhands.broker.memory import Memory

# Less than this is not counted: with 16,384 connections it is 64 MiB.
COUNTED_BYTES = 4096
# A client that has read nothing between so many looks is not served at the cost of others.
STALLED_LOOKS = 5


class Holder(Protocol):
    """A connection, as far as this module cares."""

    def held_bytes(self) -> int:
        """What was sent and is not run yet, and what was answered and is not read yet."""

    def unread_bytes(self) -> int: ...

    def give_up(self) -> None:
        """Close, and hold nothing from now on."""


class Holders:
    """State: what each was found to hold, and for how many looks it has not read."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._held: dict[Holder, int] = {}
        self._unread: dict[Holder, tuple[int, int]] = {}

    def count(self, holder: Holder) -> int:
        """See what a connection holds; if that is too much for all, the largest give up."""
        before = self._held.get(holder, 0)
        held = self._count(holder)
        if held > before and self._memory.excess:
            self._relieve(self._memory.excess)
        return self._held.get(holder, 0)

    def forget(self, holder: Holder) -> int:
        """It is gone, or as good as gone. Returns what it held."""
        held = self._held.pop(holder, 0)
        self._unread.pop(holder, None)
        self._memory.connections -= held
        return held

    def look(self) -> None:
        """From time to time: some have read since they were counted, and some never read."""
        stalled = [holder for holder in list(self._held) if self._is_stalled(holder)]
        excess = self._memory.connections - self._memory.limit // 2
        if excess > 0:
            self._close(stalled, excess)

    def _count(self, holder: Holder) -> int:
        held = holder.held_bytes()
        if held < COUNTED_BYTES:
            self.forget(holder)
            return 0
        self._memory.connections += held - self._held.get(holder, 0)
        self._held[holder] = held
        return held

    def _is_stalled(self, holder: Holder) -> bool:
        if not self._count(holder):
            return False
        unread = holder.unread_bytes()
        before, looks = self._unread.get(holder, (0, 0))
        looks = looks + 1 if before and unread >= before else 0
        self._unread[holder] = (unread, looks)
        return looks >= STALLED_LOOKS

    def _relieve(self, excess: int) -> None:
        for holder in list(self._held):
            self._count(holder)
        self._close(list(self._held), min(excess, self._memory.excess))

    def _close(self, holders: list[Holder], excess: int) -> None:
        """The largest first, until so much is free."""
        for holder in sorted(holders, key=lambda one: self._held.get(one, 0), reverse=True):
            if excess <= 0:
                return
            excess -= self.forget(holder)
            self._memory.closed_connections += 1
            holder.give_up()
