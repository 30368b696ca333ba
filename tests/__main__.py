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
PROCESSES = "5"
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
        together = ["-m", "not alone", "-n", PROOFS_AT_ONCE]
        alone = ["-m", "alone"]
        codes = [
            pytest.main([*(arguments.files or PROOFS), "-v", *some], plugins=[table])
            for some in (together, alone)
        ]
        table.write()
        # Not an error: some files have no test of one kind.
        nothing = pytest.ExitCode.NO_TESTS_COLLECTED
        return max((code for code in codes if code != nothing), default=nothing)
    # The longest first, so that none of them is what all others wait for at the end.
    levels = ["tests/acceptance", "tests/integration", "tests/contract"]
    return pytest.main(
        [*levels, "-q", "-n", PROCESSES, "--dist", "worksteal", "--timeout", TIMEOUT_S]
    )


if __name__ == "__main__":
    sys.exit(main())
