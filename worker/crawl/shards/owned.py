"""A shard that this process owns, as all parts see it."""

from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class OwnedShard:
    """`under_way` are its requests and the changes for its store, until the store has recorded
    them."""

    number: int
    epoch: int
    under_way: set[object] = field(default_factory=set)
    # Nothing new is begun: it is about to be given up.
    is_leaving: bool = False
    # What keeps it cannot be reached: nothing new is begun until it can.
    is_away: bool = False

    @property
    def in_flight(self) -> int:
        return len(self.under_way)
