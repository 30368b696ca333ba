"""How long to wait before the next attempt: doubling, capped, jittered. Pure but for the dice."""

import random
from dataclasses import dataclass

FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 10.0
# Our broker hands out no job for 3 s after a crash, so that those who held jobs can say so first:
# they have to be back by then.
LONGEST_DELAY_TO_BROKER_S = 2.0


@dataclass(slots=True)
class Backoff:
    """State: how many attempts have failed in a row."""

    failures: int = 0
    longest_s: float = LONGEST_DELAY_S

    def next_delay_s(self) -> float:
        """Half fixed, half random, so that a fleet does not come back in one instant."""
        ceiling = min(self.longest_s, FIRST_DELAY_S * float(1 << min(self.failures, 20)))
        self.failures += 1
        return ceiling * (0.5 + random.random() / 2)

    def reset(self) -> None:
        self.failures = 0
