"""The records of one partition that wait here, and which of them may be run next. Pure."""

from collections import deque
from heapq import heappop, heappush
from typing import Generic, Protocol, TypeVar

from manyhands.worker.source.kafka.topics import Order


class Keyed(Protocol):
    """A record, by what its order depends on."""

    @property
    def key(self) -> bytes | None: ...

    @property
    def offset(self) -> int: ...


Record = TypeVar("Record", bound=Keyed)
# All records of a partition that is taken in order have the same.
_ONE_FOR_ALL = b""


class PartitionQueue(Generic[Record]):
    """State: what may run now, as a heap by offset; by key, what waits for one that is ahead of it.
    Records without a key are in no order, unless the whole partition is.

    The oldest is always the next, though it may have become free last: it holds back the commit of
    all that came later."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._free: list[tuple[int, Record]] = []
        self._behind: dict[bytes, deque[Record]] = {}
        self.waiting = 0

    def add(self, record: Record) -> None:
        """The next of the partition."""
        self.waiting += 1
        lane = self._lane(record)
        if lane is None:
            heappush(self._free, (record.offset, record))
        elif (behind := self._behind.get(lane)) is not None:
            behind.append(record)
        else:
            self._behind[lane] = deque()
            heappush(self._free, (record.offset, record))

    def first(self) -> Record | None:
        return self._free[0][1] if self._free else None

    def take(self) -> Record:
        """The first, which runs from now on."""
        self.waiting -= 1
        return heappop(self._free)[1]

    def ended(self, record: Record) -> None:
        """One that was taken is over: the next of its key may run."""
        lane = self._lane(record)
        if lane is None:
            return
        if behind := self._behind[lane]:
            following = behind.popleft()
            heappush(self._free, (following.offset, following))
        else:
            del self._behind[lane]

    def put_back(self, record: Record) -> None:
        """One that was taken is to run again, before all others of its key."""
        self.waiting += 1
        heappush(self._free, (record.offset, record))

    def _lane(self, record: Record) -> bytes | None:
        if self._order is Order.KEY:
            return record.key
        return _ONE_FOR_ALL if self._order is Order.PARTITION else None
