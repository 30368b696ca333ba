"""Files of sinks whose processes are killed -9: at the end each record is there once, and so is
every one that was acknowledged."""

import os
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from devservers import S3Server
from manyhands.shared.sinks.manifest_tables import SegmentState, lines_manifest
from tests.acceptance.scale import IS_PROOF
from tests.support.file_sinks import (
    KINDS,
    credentials,
    download,
    on_s3,
    warc_files,
    warcio_complaints,
)
from tests.support.imports import ROOT
from tests.support.sink_records import page
from tests.support.sink_writer import RECORDS

PROCESSES = 4
MANY_RECORDS = 20_000 if IS_PROOF else 800
KILLS = 150 if IS_PROOF else 3
LONG = 900 if IS_PROOF else 240

# How files are uploaded does not depend on their kind: one in `make test`, all in `make prove`.
ONE_UPLOADED = [
    pytest.param(kind, marks=() if kind == "warc" else pytest.mark.proof, id=kind) for kind in KINDS
]
# Parquet takes twice as long as the others, and is published in the same steps as WARC.
EACH_STEP = [
    pytest.param(kind, marks=pytest.mark.proof if kind == "parquet" else (), id=kind)
    for kind in KINDS
]

pytestmark = pytest.mark.timeout(LONG)


def start_writer(
    directory: Path, *arguments: object, env: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.sink_writer", *map(str, arguments)],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
    )


def ids_of(numbers: range | list[int]) -> Counter[str]:
    return Counter(page(number).id for number in numbers)


def states(manifest: Path) -> set[SegmentState]:
    """Of all segments; those that are lost among them."""
    with closing(sqlite3.connect(manifest)) as connection:
        rows = connection.execute("SELECT state FROM segments").fetchall()
    return {SegmentState(state) for (state,) in rows}


def manifest_of(kind: str, directory: Path) -> Path:
    if kind == "jsonl":
        return lines_manifest(directory / "pages.ndjson")
    return next(directory.rglob("*.manifest"))


@pytest.mark.parametrize("kind", EACH_STEP)
def test_one_that_dies_at_any_step_leaves_each_record_once(kind: str, tmp_path: Path) -> None:
    assert start_writer(tmp_path, "steps", kind, KINDS[kind].local, tmp_path).wait() == 0
    directories = list(tmp_path.iterdir())
    assert len(directories) > 40
    for directory in directories:
        assert KINDS[kind].ids(directory) == ids_of(RECORDS), directory
        end = {SegmentState.OPEN if kind == "jsonl" else SegmentState.PUBLISHED}
        assert states(manifest_of(kind, directory)) == end
        assert [*directory.rglob("*.open"), *directory.rglob("*.part")] == []


@pytest.mark.parametrize("kind", ONE_UPLOADED)
def test_one_that_dies_at_any_step_of_an_upload_leaves_each_record_once(
    kind: str, s3_server: S3Server, tmp_path: Path
) -> None:
    """All directories share a bucket, under prefixes of their own."""
    bucket = f"steps-{kind}-{os.urandom(4).hex()}"
    s3_server.make_bucket(bucket)
    url = f"{kind}+s3://{bucket}/some/where{{0}}?spool={{0}}"
    runs = tmp_path / "runs"
    runs.mkdir()
    writer = start_writer(tmp_path, "steps", kind, url, runs, env=credentials(s3_server))
    assert writer.wait() == 0
    found = download(s3_server, bucket, tmp_path / "found")
    for directory in runs.iterdir():
        assert KINDS[kind].ids(found / str(directory).lstrip("/")) == ids_of(RECORDS), directory
        assert states(manifest_of("", directory)) == {SegmentState.PUBLISHED}
        assert [*directory.rglob("*.open"), *directory.rglob("*.part")] == []


def kill_many(kind: str, url: str, directory: Path, env: Mapping[str, str] | None = None) -> None:
    writers = [
        start_writer(directory, "moments", kind, url, MANY_RECORDS, KILLS, seed, env=env)
        for seed in range(PROCESSES)
    ]
    try:
        assert [writer.wait() for writer in writers] == [0] * PROCESSES
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()


@pytest.mark.parametrize("kind", KINDS)
def test_many_that_die_at_any_moment_leave_each_record_once(kind: str, tmp_path: Path) -> None:
    """They all write the same records, each in another order."""
    place = tmp_path / "out"
    place.mkdir()
    kill_many(kind, KINDS[kind].local.format(place), tmp_path)
    assert KINDS[kind].ids(place) == ids_of(range(MANY_RECORDS))
    if kind == "warc":
        assert warcio_complaints(warc_files(place)) == ""


@pytest.mark.parametrize("kind", ONE_UPLOADED)
def test_many_that_die_at_any_moment_upload_each_record_once(
    kind: str, s3_server: S3Server, tmp_path: Path
) -> None:
    bucket = f"moments-{kind}-{os.urandom(4).hex()}"
    s3_server.make_bucket(bucket)
    kill_many(kind, on_s3(kind, bucket, tmp_path), tmp_path, credentials(s3_server))
    found = download(s3_server, bucket, tmp_path / "found")
    assert KINDS[kind].ids(found) == ids_of(range(MANY_RECORDS))
    if kind == "warc":
        assert warcio_complaints(warc_files(found)) == ""
