"""The process that does one run of ours for `--against`: `python -m loadtest.one_run BENCHMARK CELL
[SIZE]`, started in the checkout whose product is measured. Its last line is the run as JSON.

Other revisions start it under this name, so it stays here.
"""

import json
import sys

from loadtest.bench import find_benchmark


def main() -> int:
    name, cell, *size = sys.argv[1:]
    against = find_benchmark(name).against
    assert against is not None, f"bench-{name} compares no revisions"
    run = against.measure(cell, float(size[0]) if size else None)
    print(json.dumps({"error": run.error, "values": run.values}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
