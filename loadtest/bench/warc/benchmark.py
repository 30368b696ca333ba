"""The plan of `bench-warc`: which file, which runs, and in which order."""

import tempfile
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from loadtest.bench.warc.cells import MEMORY_SHARES, plan_warc
from loadtest.bench.warc.files import Made, make_archive
from loadtest.bench.warc.measure import WarcRun, measure_warc
from loadtest.bench.warc.report import outcome
from loadtest.lib.machine import facts
from loadtest.lib.progress import do_all

# Of the facts about the machine, those that matter here.
MACHINE = ("cores", "cpu", "memory", "system", "python")
PACKAGES = ("fastwarc", "isal", "pyarrow", "warcio")


def run_warc(
    console: Console, size_mb: int, rounds: int, memory_mb: int
) -> tuple[list[WarcRun], list[Made], bool]:
    """Do every run with a progress bar; return them, the files, and whether all were done."""
    with tempfile.TemporaryDirectory(prefix="bench-warc-") as name:
        directory = Path(name)
        made = {
            size: make_archive(directory / f"{size}.warc.gz", size * 1_000_000)
            for size in _sizes(size_mb, memory_mb)
        }
        runs, is_complete = do_all(
            console,
            list(plan_warc(size_mb, rounds, memory_mb)),
            label=lambda step: step.label,
            run=lambda step: measure_warc(step, made[step.size_mb], directory),
            error=lambda run: run.error,
            result=outcome,
        )
    return runs, list(made.values()), is_complete


def warc_facts() -> dict[str, str]:
    found = facts()
    return {name: found[name] for name in MACHINE} | {name: version(name) for name in PACKAGES}


def _sizes(size_mb: int, memory_mb: int) -> list[int]:
    of_memory = {max(1, round(memory_mb * share)) for share in MEMORY_SHARES if memory_mb}
    return sorted({size_mb, *of_memory})
