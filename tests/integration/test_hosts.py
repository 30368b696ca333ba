"""The hosts of the deployment tests: they reach each other, and leave nothing behind."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from devservers.hosts import NAMESPACES, Network, remove_leftovers
from tests.support.compose import ROOT
from tests.support.hosts import need_hosts

MAKE_A_NETWORK_AND_DIE = """
import os, signal
from devservers.hosts import Network
with Network(["a"]) as network:
    print(network.namespace("a"), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def root() -> None:
    need_hosts()


@pytest.fixture
def network() -> Iterator[Network]:
    with Network(["a", "b"]) as network:
        yield network


def test_one_host_reaches_another(network):
    with network.on("a", lambda: socket.create_server((network.address("a"), 7419))) as server:
        address = server.getsockname()
        with network.on("b", lambda: socket.create_connection(address, 5)) as client:
            accepted, peer = server.accept()
            accepted.close()
            assert peer == client.getsockname()
            assert peer[0] == network.address("b")


def test_a_hosts_loopback_is_its_own(network):
    address = ("127.0.0.1", 7419)
    with (
        network.on("a", lambda: socket.create_server(address)),
        pytest.raises(ConnectionRefusedError),
    ):
        network.on("b", lambda: socket.create_connection(address, 5))


def test_the_calling_thread_stays_where_it_is(network):
    here = Path("/proc/thread-self/ns/net")
    before = here.readlink()
    assert network.on("a", here.readlink) != before
    assert here.readlink() == before


def test_nothing_is_left_after_a_failure():
    with pytest.raises(RuntimeError, match="on purpose"), Network(["a"]) as network:
        name = network.namespace("a")
        assert (NAMESPACES / name).exists()
        raise RuntimeError("on purpose")
    assert not (NAMESPACES / name).exists()


def test_what_a_killed_process_left_is_removed_and_what_is_in_use_is_not(network):
    done = subprocess.run(
        [sys.executable, "-c", MAKE_A_NETWORK_AND_DIE],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    remove_leftovers()
    assert not (NAMESPACES / done.stdout.strip()).exists()
    assert (NAMESPACES / network.namespace("a")).exists()
