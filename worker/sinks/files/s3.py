"""Published files as objects of a bucket."""

from datetime import timedelta
from pathlib import Path
from typing import Self

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from manyhands.shared.errors import ConfigError, ManyhandsError
from manyhands.worker.net.buckets import S3Answer, open_bucket
from manyhands.worker.sinks.files.places import Bucket

# An upload holds this many parts of this size in memory.
PART_BYTES = 8 * 1024 * 1024
PARTS_AT_ONCE = 4
# Of one request; a part has to get through a slow line in this time.
REQUEST_TIMEOUT = timedelta(seconds=120)
# Whoever uploads tries again anyway, and says so.
RETRIES = 2
RETRY_TIMEOUT = timedelta(seconds=30)
_LONGEST_REASON = 300


class BucketTrouble(ManyhandsError):
    """The server cannot be reached, or does not do what it is asked: try again."""


class BucketStore:
    """A `Store`. An object is there when its upload is complete, and not before; uploads that a
    killed process began are for the bucket's own rule against incomplete ones."""

    def __init__(self, store: S3Store) -> None:
        self._store = store

    @classmethod
    def open(cls, name: str, bucket: Bucket) -> Self:
        """Raises ConfigError when there is no such bucket, or when the credentials do not do."""
        try:
            store = open_bucket(
                bucket.name,
                bucket.prefix,
                request_timeout=REQUEST_TIMEOUT,
                retries=RETRIES,
                retry_timeout=RETRY_TIMEOUT,
            )
            next(iter(obstore.list(store, chunk_size=1)), None)
        except (BaseError, OSError, ValueError) as error:
            reason = _reason(error)
            if S3Answer.of(error).is_refusal:
                raise ConfigError(f"SINKS: {name}: {reason}") from error
            raise BucketTrouble(reason) from error
        return cls(store)

    def put(self, path: Path, name: str) -> None:
        try:
            obstore.put(
                self._store, name, path, chunk_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE
            )
        except (BaseError, OSError) as error:
            raise BucketTrouble(_reason(error)) from error

    def has_taken(self, name: str) -> bool:
        """Never: what was uploaded leaves the spool only after the manifest has it."""
        del name
        return False


def _reason(error: Exception) -> str:
    """In one line: what the server said, else what the library says."""
    answer = S3Answer.of(error)
    if answer.code:
        return f"{answer.code}: {answer.message or 'no reason is given'}"[:_LONGEST_REASON]
    # Before the last dash stands how long it took: that would make the same reason another one.
    return str(error).partition("\n")[0].rpartition(" - ")[2][:_LONGEST_REASON]
