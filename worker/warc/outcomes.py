"""What goes wrong with an archive → how its job ends."""

from collections.abc import Iterator
from contextlib import contextmanager

from worker.net.fetcher import PermanentFetchError, TemporaryFetchError
from worker.outcomes import Dead, Retry
from worker.warc.frames import NotAnArchive


@contextmanager
def as_outcomes() -> Iterator[None]:
    try:
        yield
    except (PermanentFetchError, NotAnArchive) as error:
        # In the dead set somebody can see why.
        raise Dead(str(error)) from error
    except TemporaryFetchError as error:
        # When the server said when, then; else by the job server's own growing delays.
        if error.retry_after_s is None:
            raise
        raise Retry(error.retry_after_s, str(error)) from error
