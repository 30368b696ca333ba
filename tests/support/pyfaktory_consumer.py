"""The worker of the PyPI package `pyfaktory` with a ledger; run as a script by a test.

usage: python -m tests.support.pyfaktory_consumer QUEUE LEDGER, with FAKTORY_URL in the environment
"""

import os
import sys
from functools import partial
from pathlib import Path

from pyfaktory import Client, Consumer


def add(ledger: Path, jid: str, _n: int) -> None:
    with ledger.open("a") as file:
        file.write(f"{jid}\n")


def main() -> None:
    queue, ledger = sys.argv[1:]
    with Client(faktory_url=os.environ["FAKTORY_URL"], role="consumer") as client:
        consumer = Consumer(client=client, queues=[queue], concurrency=4)
        consumer.register("add", partial(add, Path(ledger)), bind=True)
        consumer.run()


if __name__ == "__main__":
    main()
