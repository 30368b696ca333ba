"""Who is connected, who is expected back, and who is gone."""

import pytest

from manyhands.broker.clients import GRACE_S, RESTART_GRACE_S, SILENT_AFTER_S, Clients, Hello


class FakePeer:
    """A connection that remembers what it was told."""

    def __init__(self, clients: Clients, **fields) -> None:
        self.hello = Hello(**fields)
        self.is_aborted = False
        self.ended_fetches = 0
        self._clients = clients

    def abort(self) -> None:
        self.is_aborted = True
        self._clients.disconnected(self, 0.0)

    def end_fetches(self) -> None:
        self.ended_fetches += 1


@pytest.fixture
def clients() -> Clients:
    return Clients()


def connect(clients: Clients, now: float = 0.0, **fields) -> FakePeer:
    peer = FakePeer(clients, **fields)
    clients.connected(peer, now)
    return peer


@pytest.mark.parametrize(
    ("fields", "owner"),
    [
        ({}, None),
        ({"hostname": "h", "pid": 3}, None),
        ({"wid": "w", "hostname": "h", "pid": 3}, "h/3/w"),
        ({"wid": "w"}, "None/None/w"),
        ({"wid": "w", "instance": "abc"}, "abc"),
        ({"instance": "abc"}, "abc"),
    ],
)
def test_jobs_belong_to_the_instance_else_to_the_worker_else_to_nobody(fields, owner):
    assert Hello(**fields).owner == owner


def test_a_process_without_a_connection_is_gone_after_its_grace_and_named_once(clients):
    peer = connect(clients, instance="us")
    clients.disconnected(peer, 100.0)
    assert clients.take_gone(100.0 + GRACE_S - 0.01) == []
    assert clients.take_gone(100.0 + GRACE_S) == ["us"]
    assert clients.take_gone(200.0) == []


def test_a_process_that_comes_back_in_time_is_not_gone(clients):
    clients.disconnected(connect(clients, instance="us"), 100.0)
    connect(clients, 100.0 + GRACE_S - 0.01, instance="us")
    assert clients.take_gone(1000.0) == []


def test_a_process_is_gone_with_its_last_connection_only(clients):
    first, second = (connect(clients, instance="us", wid=wid) for wid in ("a", "b"))
    clients.disconnected(first, 100.0)
    assert clients.take_gone(150.0) == []
    clients.disconnected(second, 160.0)
    assert clients.take_gone(160.0 + GRACE_S) == ["us"]


def test_a_client_that_is_no_worker_is_never_missed(clients):
    clients.disconnected(connect(clients, hostname="h", pid=1), 100.0)
    assert clients.take_gone(1000.0) == []


def test_foreign_workers_on_one_machine_are_told_apart(clients):
    first = connect(clients, wid="a", hostname="h", pid=1)
    connect(clients, wid="b", hostname="h", pid=1)
    clients.disconnected(first, 100.0)
    assert clients.take_gone(1000.0) == ["h/1/a"]


def test_after_a_restart_there_is_more_time_to_come_back(clients):
    clients.expect("us", 100.0)
    clients.expect("them", 100.0)
    connect(clients, 101.0, instance="us")
    assert clients.take_gone(100.0 + RESTART_GRACE_S - 0.01) == []
    assert clients.take_gone(100.0 + RESTART_GRACE_S) == ["them"]


def test_one_that_came_back_after_a_restart_and_went_has_the_usual_grace(clients):
    clients.expect("us", 100.0)
    clients.disconnected(connect(clients, 101.0, instance="us"), 102.0)
    assert clients.take_gone(102.0 + GRACE_S) == ["us"]


# Workers


def test_a_beat_of_an_unknown_worker_finds_none(clients):
    assert clients.beat("nobody", None, 0, 1.0) is None


def test_a_worker_is_there_as_long_as_it_has_a_connection(clients):
    first, second = connect(clients, wid="w"), connect(clients, wid="w")
    clients.disconnected(first, 1.0)
    assert clients.beat("w", None, 5, 2.0) is clients.workers["w"]
    assert clients.workers["w"].rss_kb == 5
    clients.disconnected(second, 3.0)
    assert clients.workers == {}
    assert clients.beat("w", None, 5, 4.0) is None


def test_a_connection_without_a_worker_id_is_no_worker(clients):
    connect(clients)
    assert clients.workers == {}


def test_the_state_of_a_worker_only_grows(clients):
    connect(clients, wid="w")
    seen = []
    for state in (None, "", "quiet", None, "", "terminate", "quiet", "nonsense"):
        worker = clients.beat("w", state, 0, 1.0)
        assert worker is not None
        seen.append(worker.state)
    assert seen == [0, 0, 1, 1, 1, 2, 2, 2]


def test_all_connections_of_a_worker_are_told_when_its_state_grows(clients):
    peers = [connect(clients, wid="w"), connect(clients, wid="w")]
    other = connect(clients, wid="other")
    for state in ("quiet", "quiet", None):
        clients.beat("w", state, 0, 1.0)
    assert [peer.ended_fetches for peer in peers] == [1, 1]
    assert other.ended_fetches == 0


def test_a_connection_that_joins_a_quiet_worker_finds_it_quiet(clients):
    connect(clients, wid="w")
    clients.beat("w", "quiet", 0, 1.0)
    worker = clients.connected(FakePeer(clients, wid="w"), 2.0)
    assert worker is not None
    assert worker.state == 1


def test_a_worker_that_was_silent_too_long_loses_all_its_connections(clients):
    peers = [connect(clients, wid="silent"), connect(clients, wid="silent")]
    lively = connect(clients, wid="lively")
    nobody = connect(clients)
    clients.beat("lively", None, 0, 30.0)
    clients.close_silent(SILENT_AFTER_S)
    assert clients.reaped == 0
    clients.close_silent(SILENT_AFTER_S + 0.01)
    assert [peer.is_aborted for peer in (*peers, lively, nobody)] == [True, True, False, False]
    assert clients.reaped == 1
    assert list(clients.workers) == ["lively"]
