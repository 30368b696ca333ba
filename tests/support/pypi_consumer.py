"""The worker of the PyPI package `faktory` with a ledger; run as a script by a test.

usage: python -m tests.support.pypi_consumer QUEUE LEDGER, with FAKTORY_URL in the environment
"""

import sys
from functools import partial
from pathlib import Path

from faktory import Worker


def add(ledger: Path, jid: str, _n: int) -> None:
    with ledger.open("a") as file:
        file.write(f"{jid}\n")


def main() -> None:
    queue, ledger = sys.argv[1:]
    worker = Worker(queues=[queue], concurrency=4, use_threads=True)
    worker.register("add", partial(add, Path(ledger)), bind=True)
    worker.run()


if __name__ == "__main__":
    main()
