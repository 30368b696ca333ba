"""Three worker services of eight processes each at one Faktory, as the compose file sets them up:
all of them are connected, all work, and others can still connect."""

import pytest

from devservers import FaktoryServer
from manyhands.shared.faktory.client import Client
from manyhands.shared.jobs import Job
from manyhands.worker.source.lane_plan import FLEET_CONNECTIONS
from manyhands.worker.supervision.plan import OWN_CONNECTIONS, connections_of_child
from tests.conftest import StartWorker
from tests.support.compose import WORKER, services
from tests.support.ledger import Ledger
from tests.support.many_connections import connections
from tests.support.raw_client import RawClient
from tests.support.waiting import eventually

SERVICES = 3
PROCESSES = 8
JOBS = 4_800


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_three_services_of_eight_processes_hold_fewer_than_1800_connections(
    faktory: FaktoryServer,
    client: Client,
    ledger: Ledger,
    start_worker: StartWorker,
    record_property,
) -> None:
    """The budget is the service's, whatever its processes. They start at the same time, so none
    can take fewer because of the others."""
    compose = services(WORKER, FAKTORY_SERVER_IP="unused")
    settings = compose["worker-service"].environment
    settings |= {
        "WORKER_HANDLERS": "tests.support.deployed_handlers",
        # They have one host here.
        "WORKER_HTTP_BIND": "127.0.0.1:0",
    }
    for name in (
        "FAKTORY_URL",
        "FAKTORY_PASSWORD_FILE",
        "CRAWL_STATE",
        "CRAWL_PASSWORD_FILE",
        "SINKS",
    ):
        del settings[name]
    budget = int(settings["FAKTORY_CONNECTIONS"])
    with RawClient(faktory.url) as raw:
        before = connections(raw)
        workers = [
            start_worker(faktory.url, **settings, WORKER_PROCESSES=str(PROCESSES))
            for _ in range(SERVICES)
        ]
        per_service = PROCESSES * connections_of_child(budget, PROCESSES) + OWN_CONNECTIONS
        assert per_service <= budget
        wanted = before + SERVICES * per_service
        await eventually(
            lambda: connections(raw) == wanted, 120, f"not all of {wanted} connections were made"
        )
        assert wanted < FLEET_CONNECTIONS
        assert [len(worker.children) for worker in workers] == [PROCESSES] * SERVICES
        for start in range(0, JOBS, 1000):
            numbers = range(start, min(start + 1000, JOBS))
            jobs = [Job(jobtype="add", args=[number, 2]) for number in numbers]
            assert await client.push_bulk(jobs) == {}
        await eventually(lambda: len(ledger.lines) >= JOBS, 60, "not all jobs were done")
        noted = [entry.note.split() for entry in ledger.entries]
        assert sorted(int(number) for _, number in noted) == list(range(JOBS))
        assert {int(service) for service, _ in noted} == {w.supervisor_pid for w in workers}
        assert connections(raw) == wanted
    assert not [worker for worker in workers if worker.has_logged("instead of")]
    record_property("processes", SERVICES * PROCESSES)
    record_property("connections", wanted)
