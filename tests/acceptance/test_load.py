"""What the API promises under load, whatever happens to its server: every job that it accepted is
done, none that it refused, and it says so where it cannot know. Decided by the ledger of a load
test: what Locust's users were told of each job, and which jobs the worker did."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from devservers import BrokerServer, FaktoryServer
from devservers.processes import wait_until
from devservers.protocol_server import ProtocolServer
from loadtest.bench.ingest.measure import JOB
from loadtest.bench.ingest.poster import FORM, Post, build_poster, post
from loadtest.lab.faktory_wire import FaktoryWire
from loadtest.load.stand import USERS, Load, Stand
from loadtest.load.verdict import Verdict, judge
from tests.acceptance.scale import (
    IS_PROOF,
    LOAD_FAULTS,
    LOAD_JOBS_BETWEEN_FAULTS,
    LOAD_SECONDS,
    LOAD_USERS,
)

SINGLE_POSTS = 10_000
# A job that Faktory had handed out to a connection that is gone comes back after its reservation
# of 60 s; that is noticed within 15, and the retry takes up to 45.
STANDSTILL_S = 180.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900 if IS_PROOF else 330)]

Record = Callable[[str, object], None]


def kill_minus_nine(server: ProtocolServer) -> None:
    server.kill()
    server.start()


def restart_in_order(server: ProtocolServer) -> None:
    server.restart()


def load_with_faults(stand: Stand, fault: Callable[[ProtocolServer], None]) -> Verdict:
    load = Load(users=LOAD_USERS, seconds=LOAD_SECONDS)
    with stand.locust(load) as locust:
        for number in range(LOAD_FAULTS):
            enough = stand.done() + LOAD_JOBS_BETWEEN_FAULTS
            moved = wait_until(partial(stand.has_done, enough), LOAD_SECONDS)
            assert moved, f"nothing is done after {number} faults: {locust.log_text()[-2000:]}"
            fault(stand.server)
        assert locust.is_running, "the load was over before the faults"
        assert locust.wait() == 0, locust.log_text()[-2000:]
    return judge(stand.settled(STANDSTILL_S))


@pytest.mark.parametrize(
    ("make_server", "fault"),
    [
        pytest.param(BrokerServer, kill_minus_nine, id="broker-killed"),
        pytest.param(
            FaktoryServer, restart_in_order, id="faktory-restarted", marks=pytest.mark.proof
        ),
    ],
)
def test_every_answer_given_under_locust_is_kept_through_restarts_of_the_server(
    make_server: type[ProtocolServer],
    fault: Callable[[ProtocolServer], None],
    tmp_path: Path,
    record_property: Record,
) -> None:
    with Stand(make_server(), tmp_path) as stand:
        verdict = load_with_faults(stand, fault)
    record_property("accepted", verdict.total.accepted)
    record_property("faults", LOAD_FAULTS)
    record_property("lost", verdict.lost)
    record_property("refused", verdict.refused)
    record_property("outcome unknown", verdict.unknown)
    record_property("done twice", verdict.repeated)
    assert verdict.broken_promises() == []
    assert {row.kind for row in verdict.rows} == {*USERS, "all"}
    assert verdict.refused + verdict.unknown, "no user has felt the faults"


def test_ten_thousand_single_posts_are_ten_thousand_jobs(tmp_path: Path) -> None:
    order = Post("/jobs/add", JOB, FORM, connections=32, count=SINGLE_POSTS)
    with Stand(BrokerServer(), tmp_path) as stand:
        posted = post(build_poster(), stand.api.port, order)
        assert posted.statuses == {"202": SINGLE_POSTS}
        wire = FaktoryWire(stand.server.port)
        assert wait_until(lambda: wire.info().processed == SINGLE_POSTS, 60), wire.info()
        wire.close()
