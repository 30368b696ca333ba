"""Queue files for examples/word_count.py with the PyPI client `faktory`: nothing of ours is needed.

usage: FAKTORY_URL=tcp://localhost:7419 python -m examples.producer FILE…
"""

import sys
from pathlib import Path

import faktory


def main() -> None:
    with faktory.connection() as client:
        for name in sys.argv[1:]:
            path = str(Path(name).resolve())
            is_queued = client.queue("split_text", args=[path], queue="texts", reserve_for=300)
            if not is_queued:
                raise SystemExit(f"the server did not take {path}")


if __name__ == "__main__":
    main()
