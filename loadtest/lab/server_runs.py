"""Runs of a cell on one of the two servers, and the numbers that a table shows of them. Pure."""

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from loadtest.lib.figures import Figure
from loadtest.lib.plot import Bar, Group, bars_of
from loadtest.lib.report import Report
from loadtest.lib.runs import Step, in_turns
from loadtest.lib.stats import Spread
from loadtest.lib.tables import spread_text, table_head, table_line

SERVERS = {"faktory": "Faktory", "broker": "Manyhands broker"}


class AnyCell(Protocol):
    """What is measured, as far as plan and report care."""

    @property
    def kind(self) -> str: ...

    @property
    def key(self) -> str: ...

    @property
    def title(self) -> str: ...


CellType = TypeVar("CellType", bound=AnyCell)


@dataclass(frozen=True, slots=True)
class ServerRun:
    """What one run gave, by the name of each number; with `error` set, there are none."""

    cell: str
    server: str
    round: int
    error: str | None = None
    values: dict[str, float] = field(default_factory=dict)


def plan_servers(
    servers_of: Mapping[CellType, Sequence[str]],
    rounds: int,
    is_planned: Callable[[CellType, str, int], bool],
) -> Iterator[Step[CellType, str]]:
    """Yield every run; in each round each server of a cell runs it once, in rotated order."""
    for step in in_turns(servers_of, rounds, lambda cell, _: servers_of[cell]):
        if is_planned(step.cell, step.side, step.round):
            yield step


@dataclass(frozen=True, slots=True)
class Metric(Figure):
    """A number of a run that may stand in the summary."""

    # Its row there is the cell's title and this; None: it is not there.
    headline: str | None = None

    def label(self, cell: AnyCell) -> str:
        less = " (less is better)" if self.is_less_better else ""
        return f"{cell.title}{self.headline or ''}{less}"


Metrics = Mapping[str, tuple[Metric, ...]]


@dataclass(frozen=True, slots=True)
class ServerReport(Report[AnyCell, ServerRun]):
    """Of a benchmark that runs cells on both servers."""

    def good(self, cell: AnyCell, server: str) -> list[ServerRun]:
        return [
            run
            for run in self.runs
            if run.cell == cell.key and run.server == server and run.error is None
        ]

    def by_round(self, cell: AnyCell, server: str, name: str) -> dict[int, float]:
        return {run.round: run.values[name] for run in self.good(cell, server)}

    def spread(self, cell: AnyCell, server: str, metric: Metric) -> Spread | None:
        """Return the metric's values over the rounds, in the unit that it is shown in."""
        found = Spread.of(self.by_round(cell, server, metric.name).values())
        return metric.in_unit(found) if found else None

    def ratio(self, cell: AnyCell, metric: Metric) -> Spread | None:
        """Compare the broker with Faktory round by round; a round without one is left out."""
        ours, theirs = (self.by_round(cell, one, metric.name) for one in ("broker", "faktory"))
        return Spread.of_ratios(ours, theirs)

    def headlines(self, metrics: Metrics) -> list[tuple[AnyCell, Metric]]:
        return [
            (cell, metric)
            for cell in self.cells
            for metric in metrics[cell.kind]
            if metric.headline is not None
        ]


def outcome(run: ServerRun, metrics: Metrics) -> str:
    """Say in one line what a run gave: the numbers that the summary will have."""
    words = []
    for metric in metrics[run.cell.partition("/")[0]]:
        if metric.headline is not None:
            value = run.values[metric.name] / metric.per_unit
            words.append(f"{value:,.{metric.digits}f} {metric.title}")
    return ", ".join(words)


def section_lines(
    report: ServerReport, kind: str, title: str, text: str, metrics: Metrics
) -> list[str]:
    """Return the part of the page about one kind of cell; nothing when none was run."""
    cells = [cell for cell in report.cells if cell.kind == kind]
    if not cells:
        return []
    lines = ["", f"## {title}", "", textwrap.fill(text, 100), ""]
    titles = ("median (min to max)", "server", *(metric.title for metric in metrics[kind]))
    lines += table_head(titles, texts=2)
    for cell in cells:
        for server, name in SERVERS.items():
            if any(run.cell == cell.key and run.server == server for run in report.runs):
                values = [
                    spread_text(report.spread(cell, server, metric), metric.digits)
                    for metric in metrics[kind]
                ]
                lines.append(table_line([cell.title, name, *values]))
    return lines


def bar_groups(report: ServerReport, metrics: Metrics) -> list[Group]:
    """Return what the picture shows: every headline, with a bar for each server."""
    return [
        Group(metric.label(cell), _bars(report, cell, metric))
        for cell, metric in report.headlines(metrics)
    ]


def _bars(report: ServerReport, cell: AnyCell, metric: Metric) -> list[Bar]:
    return bars_of(SERVERS, lambda server: report.spread(cell, server, metric), metric.digits)
