"""The benchmark's jobs as text, about 200 bytes each, quick to make by the million. Pure."""

import json
from collections.abc import Callable, Iterator
from uuid import uuid4

# Any moment will do; servers only check its form.
CREATED_AT = "2026-01-01T00:00:00.000000Z"
PUSH_BATCH = 1000
# Multiplied by this odd number modulo 2**64, numbers in a row look like random ones and still
# differ from each other: a server that compresses its data saves no more than with real jids.
SCATTER, MASK = 0x9E3779B97F4A7C15, 2**64 - 1


class Payloads:
    """Jobs of one type for one queue; the n-th has n as its first argument."""

    def __init__(self, queue: str, jobtype: str, more_args: tuple[int, ...] = ()) -> None:
        # Jids must differ between runs too: our broker takes a jid only once.
        run = uuid4().hex[:16]
        job = {
            "jid": f"{run}%016x",
            "jobtype": jobtype,
            "args": ["%d", *more_args],
            "queue": queue,
            "reserve_for": 1800,
            "retry": 25,
            "created_at": CREATED_AT,
            "custom": {},
        }
        # The number stands in quotes until here, so that this is a text with two gaps.
        text = json.dumps(job, separators=(",", ":")).replace('"%d"', "%d")
        self._template = text

    def job(self, n: int) -> str:
        return self._template % (n * SCATTER & MASK, n)

    def push(self, n: int) -> bytes:
        """Return the command that pushes one job alone."""
        return f"PUSH {self.job(n)}\r\n".encode()

    def push_bulk(self, first: int, count: int) -> bytes:
        """Return the command that pushes `count` jobs, numbered from `first` on."""
        template = self._template
        jobs = ",".join([template % (n * SCATTER & MASK, n) for n in range(first, first + count)])
        return f"PUSHB [{jobs}]\r\n".encode()

    def commands(self, count: int, batch: int) -> Iterator[tuple[int, bytes]]:
        """Yield the commands for `count` jobs, each with the number of its jobs."""
        for first in range(0, count, batch):
            size = min(batch, count - first)
            yield size, self.push_bulk(first, size)


# Makes the jobs of one kind for a queue.
PayloadsFor = Callable[[str], Payloads]


def bench_payloads(queue: str, sleep_ms: int = 0) -> Payloads:
    """Return the jobs that every consumer of the benchmark knows."""
    if sleep_ms:
        return Payloads(queue, "bench_sleep", (sleep_ms,))
    return Payloads(queue, "bench_noop")


def burn_payloads(queue: str) -> Payloads:
    """Return jobs that compute, which our own worker knows."""
    return Payloads(queue, "bench_burn")
