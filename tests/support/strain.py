"""A server under strain: how much memory it takes at most, and how others are served meanwhile."""

import contextlib
import json
import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from manyhands.shared.jobs import new_jid
from tests.acceptance.scale import IS_PROOF, OTHERS_WAIT_S
from tests.support.raw_client import RawClient

MIB = 1024 * 1024
SHARE_IN_TIME = 0.99 if IS_PROOF else 0.5


def peak_bytes(pid: int) -> int:
    """The most that a process ever had in memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the kernel does not tell")


@dataclass
class RoundTrips:
    """How long each job took from its push to its acknowledgement; filled at the end."""

    seconds: list[float]

    def at_most(self, share: float) -> float:
        """What this share of them took."""
        return sorted(self.seconds)[int(len(self.seconds) * share)]

    def __str__(self) -> str:
        p99, longest = self.at_most(0.99) * 1000, max(self.seconds) * 1000
        return f"{len(self.seconds)} round trips, p99 {p99:.0f} ms, longest {longest:.0f} ms"


def _make_round_trips(url: str, end: Connection, jobs_may_go: bool) -> None:
    seconds, queue = [], new_jid()
    with RawClient(url) as client:
        end.send(None)
        while not end.poll(0.01):
            started = time.monotonic()
            job = {"jid": new_jid(), "jobtype": "any", "args": [1], "queue": queue}
            assert client.call("PUSH " + json.dumps(job)) == "OK"
            fetched = client.call(f"FETCH {queue}")
            if fetched is None and jobs_may_go:
                continue
            assert fetched is not None and json.loads(fetched)["jid"] == job["jid"]
            assert client.call(f'ACK {{"jid":"{job["jid"]}"}}') == "OK"
            seconds.append(time.monotonic() - started)
    end.send(seconds)


@contextlib.contextmanager
def bystander(url: str, *, jobs_may_go: bool = False) -> Iterator[RoundTrips]:
    """A client in a process of its own that pushes a job, fetches it and acknowledges it, again and
    again while the context is open. Afterwards all were answered, and in time. `jobs_may_go` is for
    tests that remove the jobs of every queue."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=_make_round_trips, args=(url, there, jobs_may_go), daemon=True
    )
    process.start()
    there.close()
    trips = RoundTrips([])
    try:
        here.recv()
        yield trips
        here.send(None)
        assert here.poll(20), "a job has no answer"
        trips.seconds = here.recv()
    finally:
        process.kill()
        process.join()
    assert trips.at_most(SHARE_IN_TIME) < OTHERS_WAIT_S, str(trips)
