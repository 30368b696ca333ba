"""How long to wait before the next attempt: doubling, capped, jittered. Pure but for the dice."""

import random
from dataclasses import dataclass

FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 10.0


@dataclass(slots=True)
class Backoff:
    """State: how many attempts have failed in a row."""

    failures: int = 0

    def next_delay_s(self) -> float:
        """Half fixed, half random, so that a fleet does not come back in one instant."""
        ceiling = min(LONGEST_DELAY_S, FIRST_DELAY_S * float(1 << min(self.failures, 20)))
        self.failures += 1
        return ceiling * (0.5 + random.random() / 2)

    def reset(self) -> None:
        self.failures = 0
