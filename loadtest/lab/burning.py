"""Work for a processor and nothing else: as a function, and as processes with no queue around it.

`python -m loadtest.lab.burning '{"seconds": 1.0}'` does it for so long and prints how often.
"""

import json
import sys
import time

# About two milliseconds of pure Python on a core of a cloud machine.
STEPS = 20_000
PRIME = 1_000_003


def burn() -> int:
    """Compute what nobody needs; the same each time."""
    value = 1
    for step in range(STEPS):
        value = (value * 31 + step) % PRIME
    return value


def burn_for(seconds: float) -> tuple[int, float]:
    """Return how often it was done, and in which time."""
    began_s = now_s = time.perf_counter()
    times = 0
    while now_s - began_s < seconds:
        burn()
        times += 1
        now_s = time.perf_counter()
    return times, now_s - began_s


def main() -> int:
    seconds: float = json.loads(sys.argv[1])["seconds"]
    print("ready", flush=True)
    if not sys.stdin.readline():
        return 1
    times, took_s = burn_for(seconds)
    print(json.dumps({"times": times, "seconds": took_s}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
