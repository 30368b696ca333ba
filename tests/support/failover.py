"""A PostgreSQL that is away, as workers say it, and one that is followed by its standby."""

from collections.abc import Collection

from devservers import PostgresServer, PostgresStandby
from tests.support.waiting import eventually
from tests.support.worker_process import WorkerUnderTest

AWAY = "the crawls' state is away: crawls wait for it"
BACK = "the crawls' state is back: crawls go on"


async def is_said(event: str, workers: Collection[WorkerUnderTest], owners: int) -> None:
    """Each of these workers has so many processes that own shards, and all of them say it."""
    await eventually(
        lambda: all(worker.events().count(event) == owners for worker in workers),
        60,
        f"not said by all: {event}",
    )


async def fail_over(
    primary: PostgresServer,
    standby: PostgresStandby,
    workers: Collection[WorkerUnderTest],
    owners: int,
) -> None:
    """SIGKILL the primary; its standby is promoted when all workers miss it."""
    primary.kill()
    await is_said(AWAY, workers, owners)
    standby.promote()


def assert_said_once(worker: WorkerUnderTest, owners: int, absences: int = 1) -> None:
    """Each time by each process that owns shards, and nothing was given up."""
    assert worker.events().count(AWAY) == worker.events().count(BACK) == owners * absences
    assert not worker.has_logged("shard given up")
    assert not worker.has_logged("could not be renewed")
