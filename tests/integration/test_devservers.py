"""The servers themselves, over raw sockets: what every other integration test takes for granted."""

import hashlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from devservers import FaktoryServer, Relay, Toxiproxy
from devservers.processes import group_alive, wait_until


class Client:
    """As much of the protocol as these tests need: one line each way."""

    def __init__(self, url: str, *, ca_file: Path | None = None, password: str | None = None):
        parts = urlsplit(url)
        assert parts.hostname is not None
        self.socket: socket.socket = socket.create_connection((parts.hostname, parts.port), 20)
        if parts.scheme == "tcp+tls":
            context = ssl.create_default_context(cafile=ca_file)
            try:
                self.socket = context.wrap_socket(self.socket, server_hostname=parts.hostname)
            except BaseException:
                self.socket.close()
                raise
        self.lines = self.socket.makefile("rb")
        greeting = json.loads(self.read().removeprefix("+HI "))
        hello: dict[str, object] = {"v": 2}
        if "s" in greeting:
            secret = password or unquote(parts.password or "")
            digest = (secret + greeting["s"]).encode()
            for _ in range(greeting["i"]):
                digest = hashlib.sha256(digest).digest()
            hello["pwdhash"] = digest.hex()
        self.answer = self.call("HELLO " + json.dumps(hello))

    def read(self) -> str:
        return self.lines.readline().decode().rstrip("\r\n")

    def call(self, line: str) -> str:
        self.socket.sendall(line.encode() + b"\r\n")
        return self.read()

    def push(self, jid: str) -> None:
        job = {"jid": jid, "jobtype": "Any", "args": []}
        assert self.call("PUSH " + json.dumps(job)) == "+OK"

    def fetch(self) -> str | None:
        if self.call("FETCH default") == "$-1":
            return None
        job = json.loads(self.read())
        assert isinstance(job["jid"], str)
        return job["jid"]

    def took(self, under_s: float = 0.0) -> float:
        """Seconds from a command to its answer, of the quickest of some: the machine may be busy,
        but it is not for each of them. The first that takes less than `under_s` will do."""
        quickest_s = float("inf")
        for _ in range(5 if not under_s else 200):
            started = time.perf_counter()
            self.call("INFO")
            self.read()
            quickest_s = min(quickest_s, time.perf_counter() - started)
            if quickest_s < under_s:
                break
        return quickest_s

    def close(self) -> None:
        self.lines.close()
        self.socket.close()


def connect(url: str, *, ca_file: Path | None = None, password: str | None = None):
    return closing(Client(url, ca_file=ca_file, password=password))


@pytest.fixture(scope="module")
def faktory() -> Iterator[FaktoryServer]:
    with FaktoryServer() as server:
        yield server


def test_plain_server_takes_a_job_and_shows_its_web_page(faktory: FaktoryServer):
    with connect(faktory.url) as client:
        assert client.answer == "+OK"
        client.push("plain-job-1")
        assert client.fetch() == "plain-job-1"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(faktory.web_url, timeout=20) as page:
        assert page.status == 200


# A slash in front would make Faktory read a file of that name; the others must survive the URL.
@pytest.mark.parametrize("password", ["simple", "/p@ss:w/rd %é"])
def test_password_is_required(password: str):
    with FaktoryServer(password=password) as server:
        with connect(server.url) as client:
            assert client.answer == "+OK"
        with connect(server.url, password="wrong") as client:
            assert client.answer == "-ERR Invalid password"


def test_tls_is_verified_with_its_own_authority_only():
    with FaktoryServer(tls=True, password="secret") as server:
        assert server.url == f"tcp+tls://:secret@localhost:{server.port}"
        with connect(server.url, ca_file=server.ca_file) as client:
            assert client.answer == "+OK"
        by_address = server.url.replace("localhost", "127.0.0.1")
        with connect(by_address, ca_file=server.ca_file) as client:
            assert client.answer == "+OK"
        with pytest.raises(ssl.SSLCertVerificationError):
            Client(server.url)


def test_restart_keeps_ports_and_jobs():
    with FaktoryServer() as server:
        url, pid = server.url, server.pid
        with connect(url) as client:
            client.push("before-restart")
        server.restart()
        assert server.url == url
        assert server.pid != pid
        with connect(url) as client:
            assert client.fetch() == "before-restart"


def test_kill_and_start_keep_ports_and_jobs_and_stop_leaves_nothing():
    server = FaktoryServer()
    server.start()
    try:
        url, pids, directory = server.url, [server.pid], server.data_dir
        with connect(url) as client:
            client.push("before-crash")
        server.kill()
        with pytest.raises(ConnectionRefusedError):
            Client(url)
        server.start()
        pids.append(server.pid)
        assert server.url == url
        with connect(url) as client:
            assert client.fetch() == "before-crash"
        server.kill()
    finally:
        server.stop()
    # Redis is in the process group of the Faktory that started it.
    assert not any(group_alive(pid) for pid in pids)
    assert not directory.exists()


def test_a_given_data_directory_is_kept():
    # Not pytest's tmp_path: on some machines its name is too long for a Unix socket.
    with tempfile.TemporaryDirectory(prefix="mh-") as directory:
        with FaktoryServer(data_dir=Path(directory)) as server, connect(server.url) as client:
            client.push("kept-on-disk")
        with FaktoryServer(data_dir=Path(directory)) as again, connect(again.url) as client:
            assert client.fetch() == "kept-on-disk"


def test_a_data_directory_too_deep_for_a_socket_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="Unix socket"):
        FaktoryServer(data_dir=tmp_path / ("x" * 100)).start()


def test_six_servers_start_at_the_same_time_from_threads_that_end():
    servers = [FaktoryServer() for _ in range(6)]
    try:
        with ThreadPoolExecutor(len(servers)) as pool:
            list(pool.map(FaktoryServer.start, servers))
        assert len({server.port for server in servers}) == len(servers)
        for server in servers:
            with connect(server.url) as client:
                assert client.answer == "+OK"
    finally:
        for server in servers:
            server.stop()


def test_no_server_outlives_a_killed_python():
    program = (
        "from devservers import FaktoryServer\n"
        "server = FaktoryServer()\n"
        "server.start()\n"
        "print(server.pid, server.data_dir, flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as python:
        assert python.stdout is not None
        pid, directory = python.stdout.readline().split()
        assert group_alive(int(pid))
        os.kill(python.pid, signal.SIGKILL)
    assert wait_until(lambda: not group_alive(int(pid)), 10)
    assert wait_until(lambda: not Path(directory).exists(), 10)


def test_relay_adds_its_round_trip(faktory: FaktoryServer):
    with Relay(faktory.port, rtt_ms=60) as relay, connect(relay.url_for(faktory)) as client:
        assert 0.060 <= client.took(under_s=0.080) < 0.080


@pytest.mark.parametrize("rtt_ms", [0, 100])
def test_relay_keeps_the_order_of_pipelined_commands(faktory: FaktoryServer, rtt_ms: float):
    with Relay(faktory.port, rtt_ms=rtt_ms) as relay, connect(relay.url_for(faktory)) as client:
        started = time.perf_counter()
        # An unknown command is answered with its own name, which shows the order.
        client.socket.sendall(b"".join(b"INFO\r\nNO%d\r\n" % number for number in range(200)))
        for number in range(200):
            size = int(client.read().removeprefix("$"))
            assert len(client.read()) == size
            assert client.read() == f"-ERR unknown command NO{number}"
        # Together, not one after the other: 200 round trips would be 20 s.
        assert time.perf_counter() - started < 15


def read_all(connection: socket.socket) -> bytes:
    with connection.makefile("rb") as stream:
        return stream.read()


@pytest.fixture
def peer() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        yield listener


def test_relay_passes_on_half_closes_after_the_delay(peer: socket.socket):
    with (
        Relay(peer.getsockname()[1], rtt_ms=80) as relay,
        socket.create_connection(("127.0.0.1", relay.port), 20) as near,
        peer.accept()[0] as far,
    ):
        far.settimeout(20)
        started = time.perf_counter()
        near.sendall(b"last words")
        near.shutdown(socket.SHUT_WR)
        assert read_all(far) == b"last words"
        assert time.perf_counter() - started >= 0.040
        with ThreadPoolExecutor(1) as reader:
            received = reader.submit(read_all, near)
            far.sendall(b"x" * 3_000_000)  # more than the relay holds at a time
            far.shutdown(socket.SHUT_WR)
            assert received.result() == b"x" * 3_000_000


def test_relay_passes_on_resets_and_refusals(peer: socket.socket):
    with Relay(peer.getsockname()[1], rtt_ms=0) as relay:
        with socket.create_connection(("127.0.0.1", relay.port), 5) as near:
            far, _ = peer.accept()
            # SO_LINGER of 0 seconds: close() sends RST.
            far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            far.close()
            with pytest.raises(ConnectionResetError):
                near.recv(1)
        peer.close()
        # On a busy machine the reset is there before connect() has returned.
        with (
            pytest.raises(ConnectionResetError),
            socket.create_connection(("127.0.0.1", relay.port), 5) as near,
        ):
            near.recv(1)


def test_toxiproxy_cuts_refuses_and_delays(faktory: FaktoryServer):
    with Toxiproxy() as toxiproxy:
        proxy = toxiproxy.proxy(faktory.port)
        url = proxy.url_for(faktory)

        with connect(url) as client:
            assert client.answer == "+OK"
            proxy.cut()
            assert client.socket.recv(1) == b""
        with connect(url) as client:
            assert client.answer == "+OK"
            proxy.disable()
            assert client.socket.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            Client(url)
        proxy.enable()

        proxy.add_toxic("latency", latency=100)
        with connect(url) as client:
            assert client.took() >= 0.1
        proxy.remove_toxics()
        with connect(url) as client:
            assert client.took(under_s=0.1) < 0.1

        with pytest.raises(RuntimeError, match="invalid toxic type"):
            proxy.add_toxic("no_such_toxic")
