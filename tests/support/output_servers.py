"""The servers that records go to, for tests that have tables, buckets, indices and topics of their
own there.

PostgreSQL and S3 are cheap: one for all tests of a process, and a test may kill or restart it if it
leaves it running. Elasticsearch and Kafka are shared by all processes of a run: a test that wants
one to stop starts its own.
"""

from collections.abc import Iterator

import pytest

from devservers import PostgresServer, S3Server
from tests.support.once_per_run import run_directory
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
