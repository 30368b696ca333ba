"""Objects of a bucket: reading one as a stream, and writing one. Blocking; for a thread."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from manyhands.shared.warc_places import ObjectAt
from manyhands.worker.net.buckets import S3Answer, open_bucket
from manyhands.worker.net.fetcher import PermanentFetchError, TemporaryFetchError
from manyhands.worker.warc.streams import Aborted

# Requested at a time; the next block comes while this one is decoded.
BLOCK_BYTES = 4 * 1024 * 1024
# An upload holds this many parts of this size in memory.
PART_BYTES = 8 * 1024 * 1024
PARTS_AT_ONCE = 3
REQUEST_TIMEOUT = timedelta(seconds=60)
# By the library; after that the job is tried again.
RETRIES = 3
RETRY_TIMEOUT = timedelta(seconds=60)
PAST_THE_END = 416


def bucket_of(place: ObjectAt) -> S3Store:
    """Sends no request yet."""
    return open_bucket(
        place.bucket,
        request_timeout=REQUEST_TIMEOUT,
        retries=RETRIES,
        retry_timeout=RETRY_TIMEOUT,
    )


class ObjectStream:
    """A `ByteStream`. State: its position, and the block that is on its way."""

    def __init__(self, place: ObjectAt) -> None:
        self._place = place
        self._store = bucket_of(place)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="s3")
        self._position = 0
        self._ahead: Future[memoryview] | None = None
        self._is_aborted = False

    def read(self) -> memoryview:
        if self._is_aborted:
            raise Aborted
        ahead = self._ahead or self._thread.submit(self._get, self._position)
        block = ahead.result()
        self._ahead = None
        self._position += len(block)
        if len(block) == BLOCK_BYTES and not self._is_aborted:
            self._ahead = self._thread.submit(self._get, self._position)
        return block

    def seek(self, offset: int) -> None:
        if offset != self._position:
            self._ahead = None
            self._position = offset

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def abort(self) -> None:
        """A request under way ends within its time-out."""
        self._is_aborted = True

    def _get(self, offset: int) -> memoryview:
        try:
            with foreign_errors(self._place):
                return memoryview(
                    obstore.get_range(
                        self._store, self._place.key, start=offset, length=BLOCK_BYTES
                    )
                )
        except _PastTheEnd:
            return memoryview(b"")


class _PastTheEnd(Exception):
    """There is nothing at this offset."""


@contextmanager
def foreign_errors(place: ObjectAt) -> Iterator[None]:
    """The library's errors → a FetchError: temporary when the server has trouble or cannot be
    reached, permanent when there is no such bucket or the credentials are not enough."""
    try:
        yield
    except (BaseError, OSError) as error:
        answer = S3Answer.of(error)
        if answer.status == PAST_THE_END:
            raise _PastTheEnd from None
        what = f"{answer.status} {answer.code}".strip() if answer.status else str(error)[:300]
        message = f"{place}: S3 said: {what}".replace("\n", " ")
        if answer.is_refusal:
            raise PermanentFetchError(message) from error
        raise TemporaryFetchError(message) from error


class ObjectOutput:
    """An `Output`. State: the upload. An abandoned one is never completed and makes no object; the
    bucket's own rule against incomplete uploads removes its parts."""

    closed = False

    def __init__(self, place: ObjectAt) -> None:
        self._place = place
        self._writer = obstore.open_writer(
            bucket_of(place),
            place.key,
            buffer_size=PART_BYTES,
            max_concurrency=PARTS_AT_ONCE,
        )

    def write(self, data: bytes) -> int:
        with foreign_errors(self._place):
            return self._writer.write(data)

    def flush(self) -> None:
        """With the commit."""

    def close(self) -> None:
        """With the commit."""

    def commit(self) -> None:
        with foreign_errors(self._place):
            self._writer.close()

    def abandon(self) -> None:
        """Nothing: the object comes with the commit."""
