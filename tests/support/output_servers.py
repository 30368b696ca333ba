"""The servers that records go to, for tests that have tables, buckets, indices and topics of their
own there.

PostgreSQL and S3 are cheap: one for all tests of a process, and a test may kill or restart it if it
leaves it running. Elasticsearch and Kafka are shared by all processes of a run: a test that wants
one to stop starts its own.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from devservers import PostgresServer, S3Server
from tests.support.shared_server import SharedServer, shared_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture(scope="session")
def elasticsearch_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedServer]:
    """For tests with the marker `jvm`."""
    with shared_server("elasticsearch", run_directory(request, tmp_path_factory)) as server:
        yield server


@pytest.fixture(scope="session")
def kafka_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedServer]:
    """For tests with the marker `jvm`."""
    with shared_server("kafka", run_directory(request, tmp_path_factory)) as server:
        yield server


def run_directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory of the fixture that is the same in all processes of this run."""
    base = tmp_path_factory.getbasetemp()
    # Under xdist each process has its own below that of the run.
    run = base.parent if hasattr(request.config, "workerinput") else base
    return run / str(request.fixturename)
