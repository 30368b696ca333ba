"""What goes wrong with a place on the network → how its job ends."""

from collections.abc import Iterator
from contextlib import contextmanager

from manyhands.worker.jobs.outcomes import Dead, Retry
from manyhands.worker.net.fetcher import PermanentFetchError, TemporaryFetchError


@contextmanager
def as_outcomes(hopeless: type[Exception]) -> Iterator[None]:
    """`hopeless` is what else can never get better."""
    try:
        yield
    except (PermanentFetchError, hopeless) as error:
        # In the dead set somebody can see why; acknowledged it would be gone without a word.
        raise Dead(str(error)) from error
    except TemporaryFetchError as error:
        # When the server said when, then; else by the job server's own growing delays.
        if error.retry_after_s is None:
            raise
        raise Retry(error.retry_after_s, str(error)) from error
