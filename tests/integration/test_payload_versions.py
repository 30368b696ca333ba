"""Jobs of a newer release meet workers of an older one, as they do while a service is rolled."""

import pytest

from manyhands.shared.faktory.client import Client
from manyhands.shared.jobs import Job
from tests.conftest import ON_BOTH_SERVERS, AnyServer, StartWorker
from tests.support.ledger import Ledger
from tests.support.versioned_handlers import KNOWN_VARIABLE
from tests.support.waiting import eventually
from tests.support.worker_process import AnyState

pytestmark = [ON_BOTH_SERVERS, pytest.mark.timeout(120)]

LEFT = "jobs with a newer payload than this worker knows are left to another"


async def test_a_job_that_is_too_new_for_one_worker_is_run_by_the_next(
    server: AnyServer,
    client: Client,
    state: AnyState,
    start_worker: StartWorker,
    ledger: Ledger,
    queue: str,
) -> None:
    jobs = [
        Job(jobtype="versioned", args=[n], queue=queue, version=version, retry=0)
        for n, version in enumerate([1, 2, 2, 1])
    ]
    await client.push_bulk(jobs)
    settings = {"WORKER_QUEUES": queue, "WORKER_HANDLERS": "tests.support.versioned_handlers"}

    old = start_worker(server.url, **settings, **{KNOWN_VARIABLE: "1"})
    # Two are left, two were run; the server may know the first of this before the rest begins.
    await eventually(lambda: len(state.scheduled) == len(ledger.notes) == 2 and not state.in_hand)
    assert sorted(ledger.notes) == ["0 of version 1 by 1", "3 of version 1 by 1"]

    start_worker(server.url, **settings, **{KNOWN_VARIABLE: "2"})
    old.terminate()
    assert await old.ended() == 0
    await eventually(lambda: state.is_empty and len(ledger.notes) == 4, 60)
    assert sorted(ledger.notes)[1:3] == ["1 of version 2 by 2", "2 of version 2 by 2"]
    assert {entry.id for entry in ledger.entries} == {job.jid for job in jobs}
    assert state.failures == 0
    assert old.events().count(LEFT) == 1
