"""The records of one partition that wait here, and which of them may be run next. Pure."""

from collections import deque
from typing import Generic, Protocol, TypeVar

from manyhands.worker.source.kafka.topics import Order


class Keyed(Protocol):
    """A record, by what its order depends on."""

    @property
    def key(self) -> bytes | None: ...


Record = TypeVar("Record", bound=Keyed)
# All records of a partition that is taken in order have the same.
_ONE_FOR_ALL = b""


class PartitionQueue(Generic[Record]):
    """State: what may run now, oldest first; by key, what waits for one that is ahead of it.
    Records without a key are in no order, unless the whole partition is."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._free: deque[Record] = deque()
        self._behind: dict[bytes, deque[Record]] = {}
        self.waiting = 0

    def add(self, record: Record) -> None:
        """The next of the partition."""
        self.waiting += 1
        lane = self._lane(record)
        if lane is None:
            self._free.append(record)
        elif (behind := self._behind.get(lane)) is not None:
            behind.append(record)
        else:
            self._behind[lane] = deque()
            self._free.append(record)

    def first(self) -> Record | None:
        return self._free[0] if self._free else None

    def take(self) -> Record:
        """The first, which runs from now on."""
        self.waiting -= 1
        return self._free.popleft()

    def ended(self, record: Record) -> None:
        """One that was taken is over: the next of its key may run, ahead of all that came later."""
        lane = self._lane(record)
        if lane is None:
            return
        if behind := self._behind[lane]:
            self._free.appendleft(behind.popleft())
        else:
            del self._behind[lane]

    def put_back(self, record: Record) -> None:
        """One that was taken is to run again, before all others of its key."""
        self.waiting += 1
        self._free.appendleft(record)

    def _lane(self, record: Record) -> bytes | None:
        if self._order is Order.KEY:
            return record.key
        return _ONE_FOR_ALL if self._order is Order.PARTITION else None
