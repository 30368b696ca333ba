"""A load test: Locust against everything that it needs, the ledger, the targets."""

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from devservers import BrokerServer, FaktoryServer
from devservers.protocol_server import ProtocolServer
from loadtest.lib.terminal import terminal_table
from loadtest.load.stand import Load, Locust, Stand
from loadtest.load.verdict import Row, Targets, Times, Verdict, judge

SERVERS: dict[str, type[ProtocolServer]] = {"broker": BrokerServer, "faktory": FaktoryServer}
LOOK_EVERY_S = 0.5
# Nothing is killed here: jobs that have not moved for so long are lost.
STANDSTILL_S = 15.0


@dataclass(frozen=True, slots=True)
class LoadRun:
    """What a load test gave, and why it failed, if it did."""

    command: str
    date: str
    verdict: Verdict
    failures: list[str]


def run_load(console: Console, server: str, load: Load, out: Path) -> tuple[Verdict, list[str]]:
    """Start everything, let Locust work, wait for the jobs, end everything; what the ledger says,
    and what was wrong apart from that."""
    with Stand(SERVERS[server](), out) as stand:
        console.print(f"{server} at {stand.server.url}, API at {stand.api.url}")
        with stand.locust(load) as locust:
            _watch(console, stand, locust, load.seconds)
            code = locust.wait()
            failures = (
                [] if code == 0 else [f"Locust ended with {code}: {locust.log_text()[-500:]}"]
            )
        verdict = judge(stand.settled(STANDSTILL_S))
    return verdict, failures


def failures_of(verdict: Verdict, targets: Targets) -> list[str]:
    """In words. Nothing was wrong with the server, so every job must have been taken."""
    failures = verdict.broken_promises()
    if verdict.refused or verdict.unknown:
        failures.append(
            f"{verdict.refused:,} jobs were refused, of {verdict.unknown:,} the outcome is unknown"
        )
    return failures + targets.missed(verdict.total)


def _watch(console: Console, stand: Stand, locust: Locust, seconds: int) -> None:
    progress = Progress(
        TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=console
    )
    with progress:
        task = progress.add_task("Locust starts", total=seconds)
        started_at: float | None = None
        while locust.is_running:
            done = stand.done()
            if done and started_at is None:
                started_at = time.monotonic()
            elapsed_s = time.monotonic() - started_at if started_at else 0.0
            progress.update(task, completed=elapsed_s, description=f"{done:,} jobs done")
            time.sleep(LOOK_EVERY_S)


def print_load(console: Console, run: LoadRun) -> None:
    table = terminal_table(
        ("requests", "jobs", "accepted/s", "done/s", "answer p50, p95, p99", "done p50, p95, p99")
    )
    for row in run.verdict.rows:
        table.add_row(*_cells(row))
    verdict = run.verdict
    console.print(table, "times in ms from the POST", "", sep="\n")
    console.print(
        f"ledger: {verdict.total.accepted:,} jobs accepted, {verdict.total.completed:,} of them "
        f"done, {verdict.lost:,} lost, {verdict.repeated:,} done more than once"
    )
    for failure in run.failures:
        console.print(f"FAILED: {failure}")


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.kind,
        f"{row.accepted:,}",
        f"{row.accepted_per_s:,.0f}",
        f"{row.completed_per_s:,.0f}",
        _times(row.to_answer),
        _times(row.to_done),
    )


def _times(times: Times) -> str:
    return ", ".join(f"{ms:,.0f}" for ms in (times.p50_ms, times.p95_ms, times.p99_ms))


def write_load(run: LoadRun, directory: Path) -> None:
    (directory / "summary.json").write_text(json.dumps(asdict(run), indent=1) + "\n")
