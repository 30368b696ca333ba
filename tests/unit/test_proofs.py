"""The table of the proofs: what was run anew replaces what stood there, the rest stays."""

from pathlib import Path

import pytest

from tests.proofs import HEAD, ProofTable


def report(
    name: str, outcome: str = "passed", when: str = "call", jobs: int = 1
) -> pytest.TestReport:
    return pytest.TestReport(
        nodeid=f"tests/acceptance/test_x.py::test_{name}",
        location=("tests/acceptance/test_x.py", 1, name),
        keywords={},
        outcome=outcome,  # type: ignore[arg-type]
        longrepr=None,
        when=when,  # type: ignore[arg-type]
        user_properties=[("jobs", jobs)],
        duration=1.6,
    )


def rows(file: Path) -> list[list[str]]:
    text = file.read_text()
    assert text.startswith(HEAD)
    lines = text.removeprefix(HEAD).splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_rows_of_tests_that_were_not_run_stay(tmp_path: Path) -> None:
    file = tmp_path / "proofs" / "faults.md"
    first = ProofTable(file)
    for each in (report("nothing_is_lost"), report("all_is_well", when="setup")):
        first.pytest_runtest_logreport(each)
    assert [row[0] for row in rows(file)] == ["nothing is lost"]

    second = ProofTable(file)
    second.pytest_runtest_logreport(report("all_is_well", outcome="failed", when="setup"))
    second.pytest_runtest_logreport(report("nothing_is_lost", jobs=7))

    (failed, again) = rows(file)
    assert (failed[0], failed[1]) == ("all is well", "failed")
    assert (again[0], again[1], again[3], again[4]) == (
        "nothing is lost",
        "passed",
        "2 s",
        "jobs 7",
    )
