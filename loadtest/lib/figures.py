"""Numbers of a run, as columns of a table. Pure."""

from dataclasses import dataclass

from loadtest.lib.stats import Spread
from loadtest.lib.tables import median_text, spread_text

KIB, MIB = 2.0**10, 2.0**20


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of a run: its name there, how its column is titled, and in which unit."""

    name: str
    title: str
    digits: int = 0
    per_unit: float = 1.0
    is_less_better: bool = False

    def in_unit(self, found: Spread) -> Spread:
        unit = self.per_unit
        return Spread(found.median / unit, found.low / unit, found.high / unit)

    def shown(self, found: Spread | None) -> str:
        """The median, the smallest and the largest."""
        return spread_text(self.in_unit(found) if found else None, self.digits)

    def median(self, found: Spread | None) -> str:
        return median_text(self.in_unit(found) if found else None, self.digits)
