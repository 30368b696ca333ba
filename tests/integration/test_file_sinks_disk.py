"""File sinks on a disk that is really full: batches wait, and each record is there once."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.integration.test_broker_disk import NAMESPACE, can_make_a_file_system
from tests.support.file_sinks import KINDS
from tests.support.full_disk_writer import FAILURES
from tests.support.imports import ROOT
from tests.support.sink_records import page

FILLER_MB = 30
DISK_MB = 40
# Where nobody may make a disk, files may not grow; in CI both run.
HOW = ["limit", "disk"] if can_make_a_file_system() or os.environ.get("CI") else ["limit"]


def report_of_writer(how: str, kind: str, directory: Path) -> dict[str, object]:
    writer = f'"{sys.executable}" -m tests.support.full_disk_writer {kind} "{directory}"'
    command = ["sh", "-c", f"exec {writer}"]
    if how == "disk":
        script = (
            f'mount -t tmpfs -o size={DISK_MB}m tmpfs "{directory}" && '
            f'head -c {FILLER_MB}M /dev/zero > "{directory}/filler" && exec {writer}'
        )
        command = [*NAMESPACE, "sh", "-c", script]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=directory.parent, env=env, stdout=subprocess.PIPE)
    assert done.returncode == 0
    report: dict[str, object] = json.loads(done.stdout)
    return report


@pytest.mark.timeout(90)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_holds_up_batches_and_loses_none(how: str, kind: str, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    report = report_of_writer(how, kind, place)
    records = report["records"]
    assert isinstance(records, int)
    assert records > 100
    assert report["failures"] == FAILURES
    assert report["ids"] == Counter(page(number).id for number in range(records))
