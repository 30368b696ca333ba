"""Writes what `make prove` saw to docs/proofs: one row per test, with the figures it recorded, as
soon as the test has ended: a run takes long, and may be broken off."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

FILE = Path(__file__).resolve().parent.parent / "docs" / "proofs" / "faults.md"
HEAD = """\
# Fault runs

Written by `make prove`, or by `python -m tests --prove FILE` for some of them; the rows of the
others stay. Jobs are counted by a ledger that every run of every job appends to, pages of a crawl
by the web that gives them. Times are UTC.

| test | outcome | ended | took | figures |
|---|---|---|---|---|
"""


class ProofTable:
    """A pytest plugin. State: the rows so far, by what their test shows, those of earlier runs
    included."""

    def __init__(self, file: Path = FILE) -> None:
        self._file = file
        self._rows = _rows_of(file)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.failed:
            shown = _sentence(report)
            self._rows[shown] = (
                f"| {shown} | {report.outcome} | {datetime.now(UTC):%Y-%m-%d %H:%M} "
                f"| {report.duration:.0f} s | {_figures(report)} |"
            )
            self._write()

    def _write(self) -> None:
        rows = self._rows
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(HEAD + "".join(f"{rows[shown]}\n" for shown in sorted(rows)))


def _rows_of(file: Path) -> dict[str, str]:
    """What an earlier run has left."""
    if not file.is_file():
        return {}
    lines = file.read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ") and line != HEAD.splitlines()[-2]]
    return {row.split(" | ")[0].removeprefix("| "): row for row in rows}


def _sentence(report: pytest.TestReport) -> str:
    name = report.nodeid.rpartition("::")[2]
    return name.removeprefix("test_").replace("_", " ")


def _figures(report: pytest.TestReport) -> str:
    return ", ".join(f"{name} {value}" for name, value in report.user_properties) or "–"
