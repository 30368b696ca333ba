"""What is in the files of sinks, as other programs read them."""

import subprocess
import sys
from pathlib import Path

import pyarrow.dataset


def warc_files(directory: Path) -> list[Path]:
    """Those that count, after an orderly stop."""
    return sorted(directory.glob("*.warc.gz"))


def warcio_complains(directory: Path) -> str:
    """What `warcio check` says of all files; nothing when all is well."""
    files = [str(file) for file in warc_files(directory)]
    checked = subprocess.run(
        [sys.executable, "-m", "warcio.cli", "check", *files], capture_output=True, text=True
    )
    return checked.stdout + checked.stderr if checked.returncode else ""


def edge_pages(directory: Path) -> set[str]:
    """Ids of the pages that have edges."""
    table = pyarrow.dataset.dataset(directory / "edges", partitioning="hive").to_table(["page_id"])
    return set(table.column("page_id").to_pylist())
