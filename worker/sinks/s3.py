"""Objects of a bucket of S3, or of anything that speaks like it.

Credentials, region and endpoint come from the variables that the tools of AWS have
(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL, …), or from the machine's
role.
"""

from datetime import timedelta
from pathlib import Path
from typing import Self

import obstore
from obstore.exceptions import PermissionDeniedError, UnauthenticatedError
from obstore.store import S3Store

from shared.errors import ConfigError
from worker.sinks.places import Bucket

# An upload holds this many parts of this size in memory.
PART_BYTES = 8 * 1024 * 1024
PARTS_AT_ONCE = 4
# Of one request; a part has to get through a slow line in this time.
REQUEST_TIMEOUT = timedelta(seconds=120)
CONNECT_TIMEOUT = timedelta(seconds=5)
# Whoever uploads tries again anyway, and says so.
RETRIES = 2
RETRY_TIMEOUT = timedelta(seconds=30)


class BucketStore:
    """A `Store`. An object is there when its upload is complete, and not before; uploads that a
    killed process began are for the bucket's own rule against incomplete ones."""

    def __init__(self, store: S3Store) -> None:
        self._store = store

    @classmethod
    def open(cls, name: str, bucket: Bucket) -> Self:
        """Raises ConfigError when there is no such bucket, or when the credentials do not do."""
        store = S3Store(
            bucket.name,
            prefix=bucket.prefix or None,
            # Whoever names an endpoint without TLS means it.
            client_options={
                "allow_http": True,
                "timeout": REQUEST_TIMEOUT,
                "connect_timeout": CONNECT_TIMEOUT,
            },
            retry_config={"max_retries": RETRIES, "retry_timeout": RETRY_TIMEOUT},
        )
        try:
            next(iter(obstore.list(store, chunk_size=1)), None)
        except FileNotFoundError as error:
            raise ConfigError(f"SINKS: {name}: there is no bucket {bucket.name}") from error
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise ConfigError(
                f"SINKS: {name}: the credentials (AWS_ACCESS_KEY_ID …) are refused: "
                + _first_line(error)
            ) from error
        return cls(store)

    def put(self, path: Path, name: str) -> None:
        obstore.put(self._store, name, path, chunk_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE)

    def has_taken(self, name: str) -> bool:
        """Never: what was uploaded leaves the spool only after the manifest has it."""
        del name
        return False


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]
