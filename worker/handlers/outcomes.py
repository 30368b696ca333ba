"""What goes wrong with a place on the network → how its job ends."""

from collections.abc import Iterator
from contextlib import contextmanager

from manyhands.worker.jobs.outcomes import Dead, Retry
from manyhands.worker.net.fetcher import PermanentFetchError, TemporaryFetchError


@contextmanager
def as_outcomes(hopeless: type[Exception]) -> Iterator[None]:
    """`hopeless` are further errors that retries cannot help."""
    try:
        yield
    except (PermanentFetchError, hopeless) as error:
        # In the dead set people can see why; an ACK would drop it silently.
        raise Dead(str(error)) from error
    except TemporaryFetchError as error:
        # After the time the server asked for; otherwise by the job server's growing delays.
        if error.retry_after_s is None:
            raise
        raise Retry(error.retry_after_s, str(error)) from error
