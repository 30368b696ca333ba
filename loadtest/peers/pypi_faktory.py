"""The PyPI package `faktory` as a consumer: one socket, a pool of threads.

Run as a script by loadtest/lab/consumers.py; FAKTORY_URL names the server.
"""

import argparse
import time

from faktory import Worker


def noop(n: int) -> None:
    """Do nothing."""


def sleep(n: int, ms: int) -> None:  # noqa: ARG001
    """Hold a thread for so long."""
    time.sleep(ms / 1000)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--queue", default="default")
    parser.add_argument("--slots", type=int, default=20)
    options = parser.parse_args()
    worker = Worker(queues=[options.queue], concurrency=options.slots, use_threads=True)
    worker.register("bench_noop", noop)
    worker.register("bench_sleep", sleep)
    worker.run()


if __name__ == "__main__":
    main()
