"""Several machines on one: each host of a test or benchmark is a network namespace, all around one
switch.

Needs root. Nothing is added to the machine's own network, and everything is named after the process
that made it, so that what a killed test left behind can be told from what another one is using.
"""

import ctypes
import functools
import itertools
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Self, TypeVar

Value = TypeVar("Value")

NAMESPACES = Path("/run/netns")
PREFIX = "mh"
OURS = re.compile(PREFIX + r"-(?P<pid>\d+)-\d+-\w+")
CLONE_NEWNET = 0x4000_0000
# Any network will do: none of it is seen outside.
SUBNET = "10.77.0"

_numbers = itertools.count()


class NetworkError(RuntimeError):
    """`ip` could not do what it was asked to."""


@functools.cache
def can_make_hosts() -> bool:
    """Whether this user may make network namespaces, and this kernel has what joins them."""
    try:
        with Network(["probe"]):
            return True
    except (NetworkError, OSError):
        return False


class Network:
    """A switch and the hosts on it; a context manager. `switch` is a host too: it has the first
    address, and what should stand between the others runs there."""

    switch = "switch"

    def __init__(self, hosts: Sequence[str]) -> None:
        number = next(_numbers)
        self._hosts = [self.switch, *hosts]
        self._names = {host: f"{PREFIX}-{os.getpid()}-{number}-{host}" for host in self._hosts}

    def __enter__(self) -> Self:
        remove_leftovers()
        try:
            for host in self._hosts:
                _ip("netns", "add", self.namespace(host))
                self._ip_on(host, "link", "set", "lo", "up")
            self._ip_on(self.switch, "link", "add", "eth0", "type", "bridge")
            for host in self._hosts[1:]:
                self._plug_in(host)
            for host in self._hosts:
                self._ip_on(host, "address", "add", f"{self.address(host)}/24", "dev", "eth0")
                self._ip_on(host, "link", "set", "eth0", "up")
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def namespace(self, host: str) -> str:
        return self._names[host]

    def address(self, host: str) -> str:
        return f"{SUBNET}.{self._hosts.index(host) + 1}"

    def on(self, host: str, function: Callable[[], Value]) -> Value:
        """Call a function whose new sockets are the host's: in a thread that goes there first, and
        ends with the call."""
        descriptor = os.open(NAMESPACES / self.namespace(host), os.O_RDONLY | os.O_CLOEXEC)
        try:
            with ThreadPoolExecutor(1) as thread:
                thread.submit(_enter, descriptor).result()
                return thread.submit(function).result()
        finally:
            os.close(descriptor)

    @contextmanager
    def inside(self, host: str) -> Iterator[None]:
        """Until the end the calling thread is on the host, with all sockets that it makes and all
        threads and processes that it starts."""
        with inside_namespace(NAMESPACES / self.namespace(host)):
            yield

    def lead(self, addresses: str, to: str) -> None:
        """Make the whole network of addresses the host's own, for all of them."""
        self._ip_on(to, "route", "add", "local", addresses, "dev", "lo")
        for host in self._hosts:
            if host != to:
                self._ip_on(host, "route", "add", addresses, "via", self.address(to))

    def cut_off(self, host: str) -> None:
        """Pull its plug at the switch: what is sent is lost, and nobody hears of it."""
        self._ip_on(self.switch, "link", "set", self._socket(host), "down")

    def plug_in_again(self, host: str) -> None:
        self._ip_on(self.switch, "link", "set", self._socket(host), "up")

    def _socket(self, host: str) -> str:
        return f"port{self._hosts.index(host)}"

    def _plug_in(self, host: str) -> None:
        socket = self._socket(host)
        self._ip_on(
            self.switch,
            *("link", "add", socket, "type", "veth"),
            *("peer", "name", "eth0", "netns", self.namespace(host)),
        )
        self._ip_on(self.switch, "link", "set", socket, "master", "eth0", "up")

    def _ip_on(self, host: str, *arguments: str) -> None:
        _ip("-n", self.namespace(host), *arguments)

    def _remove(self) -> None:
        for name in self._names.values():
            if (NAMESPACES / name).exists():
                _ip("netns", "delete", name)


@contextmanager
def inside_namespace(path: Path) -> Iterator[None]:
    """Until the end the calling thread is in the network namespace that the file stands for."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        there = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _enter(there)
        finally:
            os.close(there)
        try:
            yield
        finally:
            _enter(home)
    finally:
        os.close(home)


def remove_leftovers() -> None:
    """Remove the namespaces of tests whose process is gone; links and addresses go with them."""
    if not NAMESPACES.is_dir():
        return
    for path in NAMESPACES.iterdir():
        found = OURS.fullmatch(path.name)
        if found and not Path(f"/proc/{found['pid']}").exists():
            # Another process may be doing the same.
            subprocess.run(["ip", "netns", "delete", path.name], capture_output=True, timeout=10)


def _enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=10)
    if done.returncode:
        raise NetworkError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
