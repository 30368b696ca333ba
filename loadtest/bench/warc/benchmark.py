"""`bench-warc`: archives decoded and exported, beside FastWARC and warcio."""

import tempfile
from pathlib import Path

from rich.console import Console

from loadtest.bench.warc.cells import MEMORY_SHARES, SIZE_MB, plan_warc
from loadtest.bench.warc.files import make_archive
from loadtest.bench.warc.measure import measure_warc
from loadtest.bench.warc.report import WarcReport, outcome, print_warc_report, write_warc_report
from loadtest.lib.benchmark import Benchmark, Wanted
from loadtest.lib.machine import basic_facts, package_versions
from loadtest.lib.options import Option, count
from loadtest.lib.progress import do_all

PACKAGES = ("fastwarc", "isal", "pyarrow", "warcio")
MEMORY_MB = 1024


def run(console: Console, wanted: Wanted[None]) -> WarcReport:
    size_mb, memory_mb = wanted.options.size_mb, wanted.options.memory_mb
    with tempfile.TemporaryDirectory(prefix="bench-warc-") as name:
        directory = Path(name)
        made = {
            size: make_archive(directory / f"{size}.warc.gz", size * 1_000_000)
            for size in _sizes(size_mb, memory_mb)
        }
        done = do_all(
            console,
            list(plan_warc(size_mb, wanted.rounds, memory_mb)),
            label=lambda step: step.label,
            run=lambda step: measure_warc(step, made[step.size_mb], directory),
            error=lambda run: run.error,
            result=outcome,
        )
    return WarcReport.of(wanted.machine, list(made.values()), done)


def _sizes(size_mb: int, memory_mb: int) -> list[int]:
    of_memory = {max(1, round(memory_mb * share)) for share in MEMORY_SHARES if memory_mb}
    return sorted({size_mb, *of_memory})


BENCHMARK = Benchmark(
    name="warc",
    help="decode a WARC file and export it to Parquet, beside FastWARC and warcio with pyarrow",
    rounds=3,
    facts=lambda: basic_facts() | package_versions(*PACKAGES),
    options=(
        Option(
            "--size-mb",
            "of the file of the rounds, compressed (default %(default)s)",
            count,
            SIZE_MB,
        ),
        Option(
            "--memory-mb",
            "of the longest file whose memory is looked at; 0: none (default %(default)s)",
            int,
            MEMORY_MB,
        ),
    ),
    run=run,
    show=print_warc_report,
    write=write_warc_report,
)
