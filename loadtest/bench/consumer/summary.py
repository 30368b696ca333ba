"""From runs to numbers: medians, spreads and paired ratios. Pure; report.py shows them."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from loadtest.lab.measure import Run
from loadtest.lib.stats import Spread


@dataclass(frozen=True, slots=True)
class Row:
    """One consumer in one cell."""

    cell: str
    consumer: str
    slots: int
    jobs: int
    runs: int
    errors: int
    rate: Spread | None
    sockets: float
    busy_peak: float
    cpu_us: float
    server_cpu_us: float
    relay_cpu_us: float
    rss_idle_bytes: float
    bytes_per_slot: float


def rows(runs: list[Run]) -> list[Row]:
    """Return one row per cell and consumer, in the order of their first run."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.cell, run.consumer), []).append(run)
    return [_row(group) for group in groups.values()]


def _row(group: list[Run]) -> Row:
    good = [run for run in group if run.error is None]

    def middle(value: Callable[[Run], float]) -> float:
        return statistics.median(map(value, good)) if good else 0.0

    first = group[0]
    return Row(
        cell=first.cell,
        consumer=first.consumer,
        slots=first.slots,
        jobs=first.jobs,
        runs=len(good),
        errors=len(group) - len(good),
        rate=Spread.of(run.jobs_per_s for run in good),
        sockets=middle(lambda run: run.sockets),
        busy_peak=middle(lambda run: run.busy_peak),
        cpu_us=middle(lambda run: run.cpu_us_per_job),
        server_cpu_us=middle(lambda run: run.server_cpu_us_per_job),
        relay_cpu_us=middle(lambda run: run.relay_cpu_us_per_job),
        rss_idle_bytes=middle(lambda run: run.rss_idle_bytes),
        bytes_per_slot=middle(lambda run: run.bytes_per_slot),
    )


def paired_ratio(runs: list[Run], cell: str, rivals: set[str]) -> Spread | None:
    """Compare ours with the fastest rival of the same round, round by round.

    A round in which one of them failed or has not run is left out.
    """
    rounds: dict[int, dict[str, Run]] = {}
    for run in runs:
        if run.cell == cell and run.consumer in rivals | {"ours"}:
            rounds.setdefault(run.round, {})[run.consumer] = run
    wanted = set().union(*rounds.values()) - {"ours"}
    ratios = []
    for found in rounds.values():
        if wanted and set(found) == wanted | {"ours"} and not any(r.error for r in found.values()):
            best = max(found[name].jobs_per_s for name in wanted)
            ratios.append(found["ours"].jobs_per_s / best)
    return Spread.of(ratios)
