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
# Six tests at a time share two cores, and now and then one of them has to wait for too long. So
# many may fail and pass when they are alone on the machine; with more of them something is broken.
MOST_AGAIN = 3


class Failures:
    """State: the tests that failed, in the order of their ends. A plugin of pytest."""

    def __init__(self) -> None:
        self.tests: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and report.nodeid not in self.tests:
            self.tests.append(report.nodeid)


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
        # Not an error: some files have no test of one kind.
        nothing = pytest.ExitCode.NO_TESTS_COLLECTED
        return max((code for code in codes if code != nothing), default=nothing)
    levels = ["tests/acceptance", "tests/integration", "tests/contract"]
    failures = Failures()
    code = pytest.main(
        [
            *(*levels, "-q", "-m", "not proof", "-p", "tests.spread"),
            *("-n", PROCESSES, "--dist", "worksteal", "--timeout", TIMEOUT_S),
        ],
        plugins=[failures],
    )
    if code == pytest.ExitCode.TESTS_FAILED and len(failures.tests) <= MOST_AGAIN:
        code = _again_alone(failures.tests)
    return code


def _again_alone(tests: list[str]) -> int | pytest.ExitCode:
    """What fails twice, beside others and alone, fails the run; what fails once is named."""
    _say(f"failed beside others, now once more alone: {', '.join(tests)}")
    code = pytest.main([*tests, "-q", "--timeout", TIMEOUT_S])
    if code == pytest.ExitCode.OK:
        _say(f"FAILED ONCE, beside others, and passed alone: {', '.join(tests)}")
    return code


def _say(text: str) -> None:
    sys.stderr.write(f"\n{text}\n")


if __name__ == "__main__":
    sys.exit(main())
