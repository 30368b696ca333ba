"""What every benchmark's page has: its command, its machine, the runs that failed, three files."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol, TypeVar


class AnyRun(Protocol):
    """A dataclass of one run."""

    @property
    def cell(self) -> str: ...

    @property
    def round(self) -> int: ...

    @property
    def error(self) -> str | None: ...


RunType = TypeVar("RunType", bound=AnyRun)
Run_co = TypeVar("Run_co", bound=AnyRun, covariant=True)


class Written(Protocol[Run_co]):
    """A report, as far as its page's frame cares."""

    @property
    def command(self) -> str: ...

    @property
    def date(self) -> str: ...

    @property
    def machine(self) -> dict[str, str]: ...

    @property
    def is_complete(self) -> bool: ...

    @property
    def runs(self) -> Sequence[Run_co]: ...

    @property
    def errors(self) -> Sequence[Run_co]: ...


def head_lines(report: Written[AnyRun], title: str) -> list[str]:
    lines = [f"# {title}", "", f"    {report.command}", ""]
    if not report.is_complete:
        lines += ["**Interrupted: not all rounds were run.**", ""]
    return lines


def machine_lines(report: Written[AnyRun], name: str) -> list[str]:
    """Return what it was measured on, and where every run is."""
    lines = ["## Machine", "", *(f"- {fact}: {value}" for fact, value in report.machine.items())]
    return [*lines, f"- date: {report.date}", "", f"Every single run is in `{name}.json`.", ""]


def failed_lines(report: Written[RunType], who: Callable[[RunType], str]) -> list[str]:
    """Return the runs that failed; `who` says whose a run was."""
    lines = ["", "## Runs that failed and are not counted", ""] if report.errors else []
    for run in report.errors:
        reason = " ".join((run.error or "").split())
        lines.append(f"- {run.cell}, round {run.round}, {who(run)}: {reason}")
    return lines


def write_document(
    report: Written[AnyRun],
    directory: Path,
    name: str,
    *,
    markdown: str,
    picture: str | None = None,
) -> None:
    runs: Sequence[Any] = report.runs
    raw = {
        "command": report.command,
        "date": report.date,
        "is_complete": report.is_complete,
        "machine": report.machine,
        "runs": [asdict(run) for run in runs],
    }
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{name}.json").write_text(json.dumps(raw, indent=1) + "\n")
    (directory / f"{name}.md").write_text(markdown)
    if picture is not None:
        (directory / f"{name}.svg").write_text(picture)
