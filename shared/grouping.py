"""Items that travel together, up to a total size. Pure."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def grouped(
    items: Iterable[Item],
    size_of: Callable[[Item], int],
    *,
    most_size: int,
    most_items: int | None = None,
) -> Iterator[list[Item]]:
    """Groups in the items' order, each as full as the limits allow. An item larger than
    `most_size` is a group by itself."""
    group: list[Item] = []
    size = 0
    for item in items:
        size += (of_item := size_of(item))
        if group and (len(group) == most_items or size > most_size):
            yield group
            group, size = [], of_item
        group.append(item)
    if group:
        yield group
