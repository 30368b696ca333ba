"""Published files as objects of a bucket."""

from datetime import timedelta
from pathlib import Path
from typing import Self

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from manyhands.shared.errors import ConfigError, ManyhandsError
from manyhands.shared.sinks.places import Bucket
from manyhands.worker.net.buckets import S3Answer, open_bucket

# An upload holds this many parts of this size in memory.
PART_BYTES = 8 * 1024 * 1024
PARTS_AT_ONCE = 4
# Of one request; a part has to get through a slow connection in this time.
REQUEST_TIMEOUT = timedelta(seconds=120)
# The publisher tries again anyway, and logs it.
RETRIES = 2
RETRY_TIMEOUT = timedelta(seconds=30)
_LONGEST_REASON = 300


class BucketTrouble(ManyhandsError):
    """The server cannot be reached, or fails: try again."""


class BucketStore:
    """A `Store`. An object appears when its upload is complete; the bucket's own rule against
    incomplete uploads removes those of killed processes."""

    def __init__(self, store: S3Store) -> None:
        self._store = store

    @classmethod
    def open(cls, name: str, bucket: Bucket) -> Self:
        """Raises ConfigError when there is no such bucket, or the credentials are not enough."""
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
    """In one line: the server's message, or else the library's."""
    answer = S3Answer.of(error)
    if answer.code:
        return f"{answer.code}: {answer.message or 'no reason is given'}"[:_LONGEST_REASON]
    # How long it took is before the last dash: it would make the same reason look new.
    return str(error).partition("\n")[0].rpartition(" - ")[2][:_LONGEST_REASON]
