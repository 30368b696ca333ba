"""`python -m tests`: the tests against real servers; with --prove the long fault runs.

A process of its own, not a bare pytest call in the Makefile, so that the two differ in nothing
but their counts.
"""

import argparse
import os
import sys

import pytest

from tests.proofs import ProofTable

# Many of these wait for servers, not for the processor: more processes than cores.
PROCESSES = "6"
# Of a test that names none of its own: four times what unit tests have, for processes start in it.
TIMEOUT_S = "120"
# What `make prove` runs: all faults, and of the others those that have more to show at length.
PROOFS = (
    "tests/acceptance",
    "tests/integration/test_broker_damage.py",
    "tests/integration/test_broker_memory.py",
    "tests/integration/test_bytes_outside_the_body.py",
    "tests/integration/test_file_sinks_kill.py",
    "tests/integration/test_http_front.py",
    "tests/integration/test_http_memory.py",
    "tests/integration/test_shard_damage.py",
)
# Where else tests have the marker `proof`, which are left to `make prove`.
ALSO_PROOFS = ("tests/integration", "-m", "proof")
# The long runs do use it: side by side they would only wait for each other.
PROOFS_AT_ONCE = "3"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests", description=__doc__)
    parser.add_argument("--prove", action="store_true", help="long fault runs, ten times the jobs")
    parser.add_argument("files", nargs="*", help="with --prove: only these", metavar="FILE")
    arguments = parser.parse_args()
    if arguments.files and not arguments.prove:
        parser.error("files are for --prove; pytest runs others")
    if arguments.prove:
        os.environ["TEST_PROVE"] = "1"
        table = ProofTable()
        files = arguments.files or PROOFS
        runs = [
            [*files, "-m", "not alone", "-n", PROOFS_AT_ONCE],
            [*files, "-m", "alone"],
        ]
        if not arguments.files:
            runs.append([*ALSO_PROOFS, "-n", PROOFS_AT_ONCE, "--timeout", TIMEOUT_S])
        codes = [pytest.main([*run, "-v"], plugins=[table]) for run in runs]
        table.write()
        # Not an error: some files have no test of one kind.
        nothing = pytest.ExitCode.NO_TESTS_COLLECTED
        return max((code for code in codes if code != nothing), default=nothing)
    # The longest first, so that none of them is what all others wait for at the end.
    levels = ["tests/acceptance", "tests/integration", "tests/contract"]
    return pytest.main(
        [
            *(*levels, "-q", "-m", "not proof"),
            *("-n", PROCESSES, "--dist", "worksteal", "--timeout", TIMEOUT_S),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
