"""A shard that this process owns, as all its parts know it."""

from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class OwnedShard:
    """`under_way` are the requests of it, and the changes that its store was told, until the store
    knows what became of them."""

    number: int
    epoch: int
    under_way: set[object] = field(default_factory=set)
    # Nothing new is begun: it is about to be given up.
    is_leaving: bool = False

    @property
    def in_flight(self) -> int:
        return len(self.under_way)
