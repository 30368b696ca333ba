"""Writes what `make prove` saw to docs/proofs: one row per test, with the figures it recorded."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

FILE = Path(__file__).resolve().parent.parent / "docs" / "proofs" / "faults.md"


class ProofTable:
    """A pytest plugin. State: the reports so far, in the order of their ends."""

    def __init__(self) -> None:
        self._reports: list[pytest.TestReport] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.failed:
            self._reports.append(report)

    def write(self) -> None:
        rows = [
            f"| {_sentence(report)} | {report.outcome} | {report.duration:.0f} s "
            f"| {_figures(report)} |"
            for report in sorted(self._reports, key=lambda report: report.nodeid)
        ]
        head = [
            "# Fault runs",
            "",
            "Written by `make prove`. Jobs are counted by a ledger that every run of every job",
            "appends to, pages of a crawl by the web that gives them. Last run:",
            f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC.",
            "",
            "| test | outcome | took | figures |",
            "|---|---|---|---|",
        ]
        FILE.parent.mkdir(parents=True, exist_ok=True)
        FILE.write_text("\n".join([*head, *rows]) + "\n")


def _sentence(report: pytest.TestReport) -> str:
    name = report.nodeid.rpartition("::")[2]
    return name.removeprefix("test_").replace("_", " ")


def _figures(report: pytest.TestReport) -> str:
    return ", ".join(f"{name} {value}" for name, value in report.user_properties) or "–"
