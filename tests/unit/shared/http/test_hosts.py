"""Which Host headers name this machine."""

import pytest

from manyhands.shared.http.hosts import is_own_host


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:7420", "127.0.0.1", "127.0.0.1:80", "127.1.2.3", "[::1]", "[::1]:80"],
)
@pytest.mark.parametrize("bound_to", ["127.0.0.1", "0.0.0.0", "::1", "10.0.0.7"])
def test_names_of_the_loopback_are_always_our_own(host, bound_to):
    assert is_own_host(host, bound_to)


@pytest.mark.parametrize(
    "host",
    [
        *("", "example.com", "example.com:7420", "127.0.0.1.example.com", "localhost.example.com"),
        *("localhost.", "[", "[::1", "a" * 300, "user@127.0.0.1@example.com", "0x7f.1"),
    ],
)
@pytest.mark.parametrize("bound_to", ["127.0.0.1", "0.0.0.0", "10.0.0.7"])
def test_a_name_that_anybody_could_point_here_is_not(host, bound_to):
    assert not is_own_host(host, bound_to)


def test_the_address_that_it_listens_on_is_its_own():
    assert is_own_host("10.0.0.7:7421", "10.0.0.7")
    assert is_own_host("Worker.Internal:7421", "worker.internal")
    assert not is_own_host("10.0.0.8:7421", "10.0.0.7")
    assert not is_own_host("10.0.0.8:7421", "127.0.0.1")


def test_on_all_addresses_any_address_is_its_own_and_no_name():
    """A probe comes by the address of a pod."""
    assert is_own_host("10.0.0.8:7421", "0.0.0.0")
    assert is_own_host("[fd00::7]:7421", "::")
    assert not is_own_host("worker-service:7421", "0.0.0.0")


def test_a_name_that_an_operator_gave_it_is_its_own():
    """Inside a compose network it is asked by the name of its service."""
    names = ("api-service",)
    assert is_own_host("api-service:3000", "0.0.0.0", names)
    assert is_own_host("API-Service", "0.0.0.0", names)
    assert not is_own_host("api-service.example.com:3000", "0.0.0.0", names)
    assert not is_own_host("", "0.0.0.0", names)
