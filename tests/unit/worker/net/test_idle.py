"""Connections that wait: one per host, not for long, not too many."""

import pytest

from manyhands.shared.urls import parse_url
from manyhands.worker.net.idle import IdleConnections, Origin

KEEP_S = 5.0


class FakeConnection:
    def __init__(self) -> None:
        self.is_open = True

    def close(self) -> None:
        self.is_open = False


def origin(url: str) -> Origin:
    return Origin.of(parse_url(url))


HERE = origin("http://a.test/")


@pytest.fixture
def idle() -> IdleConnections[FakeConnection]:
    return IdleConnections(3, KEEP_S)


def test_a_connection_is_taken_once(idle):
    connection = FakeConnection()
    idle.put(HERE, connection, 0)
    assert idle.take(HERE, KEEP_S) is connection
    assert idle.take(HERE, KEEP_S) is None


@pytest.mark.parametrize("other", ["https://a.test/", "http://a.test:8080/", "http://b.test/"])
def test_scheme_host_and_port_must_be_the_same(idle, other):
    idle.put(HERE, FakeConnection(), 0)
    assert idle.take(origin(other), 0) is None
    assert idle.take(origin("http://a.test/another/page"), 0) is not None


def test_one_that_waited_too_long_is_closed(idle):
    connection = FakeConnection()
    idle.put(HERE, connection, 0)
    assert idle.take(HERE, KEEP_S + 0.1) is None
    assert not connection.is_open


def test_one_that_the_server_closed_is_not_given(idle):
    connection = FakeConnection()
    idle.put(HERE, connection, 0)
    connection.is_open = False
    assert idle.take(HERE, 1) is None


def test_a_second_one_of_a_host_is_closed(idle):
    first, second = FakeConnection(), FakeConnection()
    idle.put(HERE, first, 0)
    idle.put(HERE, second, 0)
    assert (first.is_open, second.is_open, len(idle)) == (True, False, 1)


def test_there_are_never_more_than_the_bound(idle):
    made = [FakeConnection() for _ in range(5)]
    for number, connection in enumerate(made):
        idle.put(origin(f"http://{number}.test/"), connection, 0)
    assert [one.is_open for one in made] == [True, True, True, False, False]
    assert len(idle) == 3


def test_the_expired_make_room(idle):
    old = [FakeConnection() for _ in range(3)]
    for number, connection in enumerate(old):
        idle.put(origin(f"http://{number}.test/"), connection, number)
    new = FakeConnection()
    idle.put(HERE, new, KEEP_S + 1.5)
    assert [one.is_open for one in old] == [False, False, True]
    assert (new.is_open, len(idle)) == (True, 2)


def test_all_can_be_closed(idle):
    connection = FakeConnection()
    idle.put(HERE, connection, 0)
    idle.close_all()
    assert (connection.is_open, len(idle)) == (False, 0)
