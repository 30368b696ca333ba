"""A bucket of the real S3 server, for whoever reads AWS_* variables."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from devservers import S3Server

Put = Callable[[str, bytes], None]


@pytest.fixture
def s3_variables(s3_server: S3Server) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": s3_server.access_key,
        "AWS_SECRET_ACCESS_KEY": s3_server.secret_key,
        "AWS_ENDPOINT_URL": s3_server.endpoint,
        "AWS_REGION": s3_server.region,
    }


@pytest.fixture
def bucket(
    s3_server: S3Server, s3_variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> str:
    """An empty one of the test's own; our credentials are in the environment."""
    for variable, value in s3_variables.items():
        monkeypatch.setenv(variable, value)
    name = f"warc-{os.urandom(4).hex()}"
    s3_server.make_bucket(name)
    return name


@pytest.fixture
def bucket_path(s3_server: S3Server, bucket: str) -> Path:
    """Where the server keeps the bucket's objects."""
    return s3_server.data_dir / "buckets" / bucket


@pytest.fixture
def put(bucket_path: Path) -> Put:
    def put(key: str, data: bytes) -> None:
        path = bucket_path / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    return put
