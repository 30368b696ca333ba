"""Things by their time, in a heap that they can leave. Pure; times are seconds on one clock.

Every operation is O(log n): a moved item leaves its old place behind, which is skipped when it
comes up, and swept out before such places are the majority.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

SWEPT_BEYOND = 16


@dataclass(slots=True, eq=False)
class HeapItem:
    """Something in at most one heap: at that time, in the place of that number."""

    heap: "TimeHeap[Any] | None" = field(default=None, init=False, repr=False)
    at: float = field(default=0.0, init=False)
    place: int = field(default=0, init=False)


ItemT = TypeVar("ItemT", bound=HeapItem)


class TimeHeap(Generic[ItemT]):
    """Items by time, and by the number of their place among the same. State: all places, also
    those whose items have left, and how many items there are."""

    __slots__ = ("_items", "_places")

    def __init__(self) -> None:
        self._places: list[tuple[float, int, ItemT]] = []
        self._items = 0

    def __len__(self) -> int:
        return self._items

    def __iter__(self) -> Iterator[ItemT]:
        return (item for _, place, item in self._places if item.place == place)

    def put(self, item: ItemT, at: float, place: int) -> None:
        """Into this heap and out of the one where it was. No place has its number twice."""
        if item.heap is not None:
            item.heap.remove(item)
        item.heap, item.at, item.place = self, at, place
        self._items += 1
        heapq.heappush(self._places, (at, place, item))

    def remove(self, item: ItemT) -> None:
        item.heap, item.place = None, 0
        self._items -= 1
        if len(self._places) > 2 * self._items + SWEPT_BEYOND:
            self._places = [entry for entry in self._places if entry[2].place == entry[1]]
            heapq.heapify(self._places)

    def first(self) -> ItemT | None:
        while self._places:
            _, place, item = self._places[0]
            if item.place == place:
                return item
            heapq.heappop(self._places)
        return None
