"""The Python clients of others, as loadtest/peers are for Go, Rust and Node; run by a test.

usage: python -m tests.support.python_peer CLIENT send --queue Q --name NAME --count N
       python -m tests.support.python_peer CLIENT consume --queue Q --slots N --record FILE
with CLIENT pypi (the package `faktory`) or pyfaktory, and FAKTORY_URL in the environment.
"""

import argparse
import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import faktory
import pyfaktory

TEXT = "Grüße <&> 🐈"


def main() -> None:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("client", choices=["pypi", "pyfaktory"])
    parser.add_argument("mode", choices=["send", "consume"])
    parser.add_argument("--queue", required=True)
    parser.add_argument("--name", default="")
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--record", type=Path)
    given = parser.parse_args()
    url = os.environ["FAKTORY_URL"]
    {
        ("pypi", "send"): send_by_pypi,
        ("pypi", "consume"): consume_by_pypi,
        ("pyfaktory", "send"): send_by_pyfaktory,
        ("pyfaktory", "consume"): consume_by_pyfaktory,
    }[given.client, given.mode](url, given)


def custom_of(n: int) -> dict[str, Any] | None:
    return {"n": n} if n % 2 == 0 else None


def note(record: Path, jid: str, *args: Any) -> None:
    """Neither of the two shows a handler what is in `custom`."""
    with record.open("a") as file:
        file.write(json.dumps({"jid": jid, "args": args}) + "\n")


def send_by_pypi(url: str, given: argparse.Namespace) -> None:
    with faktory.connection(url) as client:
        for n in range(given.count):
            client.queue(
                "pair",
                args=[given.name, str(n), TEXT],
                queue=given.queue,
                custom=custom_of(n),
                reserve_for=1800,  # faktory-rs refuses a job without this field
            )


def consume_by_pypi(url: str, given: argparse.Namespace) -> None:
    worker = faktory.Worker(
        faktory=url, queues=[given.queue], concurrency=given.slots, use_threads=True
    )
    worker.register("pair", partial(note, given.record), bind=True)
    worker.run()


def send_by_pyfaktory(url: str, given: argparse.Namespace) -> None:
    """One by one, and the last half as a batch."""
    jobs = [
        pyfaktory.Job(
            jobtype="pair",
            args=[given.name, str(n), TEXT],
            queue=given.queue,
            custom=custom_of(n),
        )
        for n in range(given.count)
    ]
    half = len(jobs) // 2
    with pyfaktory.Client(faktory_url=url, role="producer") as client:
        producer = pyfaktory.Producer(client=client)
        for job in jobs[:half]:
            producer.push(job)
        producer.push_bulk(jobs[half:])


def consume_by_pyfaktory(url: str, given: argparse.Namespace) -> None:
    with pyfaktory.Client(faktory_url=url, role="consumer") as client:
        consumer = pyfaktory.Consumer(client=client, queues=[given.queue], concurrency=given.slots)
        consumer.register("pair", partial(note, given.record), bind=True)
        consumer.run()


if __name__ == "__main__":
    main()
