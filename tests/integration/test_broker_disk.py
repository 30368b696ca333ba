"""A disk that is really full: a small file system of the broker's own, or, where nobody may make
one, a limit on the size of its files."""

import functools
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from devservers import BrokerServer
from devservers.processes import Child
from manyhands.broker.schema import PAGE_BYTES
from manyhands.shared.jobs import new_jid
from tests.support.raw_client import RawClient
from tests.support.waiting import eventually

FILLER_MB = 100
# How full the log is when the disk is full differs with its size.
DISKS_MB = [164, 190, 215]
FILE_LIMIT_BYTES = 20 * 1024 * 1024
JOB_BYTES = 20_000
FULL = "-ERR the disk is full"

NAMESPACE = ["unshare", "--map-root-user", "--mount"]


class SmallDiskBroker(BrokerServer):
    """One whose data lies in a tmpfs that only it can see, together with a file that can go."""

    def __init__(self, size_mb: int) -> None:
        super().__init__()
        self._size_mb = size_mb

    def _start_child(self, ports: Sequence[int]) -> Child:
        port, web_port = ports
        data = self.data_dir / "db"
        data.mkdir(exist_ok=True)
        self.settings |= {
            "SMALL_DISK": str(data),
            "BROKER_DATA": str(data / "data"),
            "BROKER_BIND": f"127.0.0.1:{port}",
            "BROKER_HTTP_BIND": f"127.0.0.1:{web_port}",
        }
        script = (
            f'mount -t tmpfs -o size={self._size_mb}m tmpfs "$SMALL_DISK" && '
            f'head -c {FILLER_MB}M /dev/zero > "$SMALL_DISK/filler" && '
            f'exec "{sys.executable}" -m manyhands.broker'
        )
        env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])} | self.settings
        return Child([*NAMESPACE, "sh", "-c", script], log=self.data_dir / "broker.log", env=env)

    def make_room(self) -> None:
        # Seen through the process, whose file system it is.
        inside = Path(f"/proc/{self.pid}/root")
        (inside / self.settings["SMALL_DISK"].lstrip("/") / "filler").unlink()


@functools.cache
def can_make_a_file_system() -> bool:
    command = [*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    try:
        return subprocess.run(command, capture_output=True, timeout=10).returncode == 0
    except OSError:
        return False


def push(raw: RawClient, queue: str, count: int) -> list[str]:
    """The jids that were taken. The others are refused because the disk is full, none silently."""
    jids = [new_jid() for _ in range(count)]
    for jid in jids:
        job = {"jid": jid, "jobtype": "any", "args": ["x" * JOB_BYTES], "queue": queue}
        raw.send("PUSH " + json.dumps(job))
    answers = [raw.answer() or "" for _ in jids]
    assert all(answer == "OK" or answer.startswith(FULL) for answer in answers), set(answers)
    return [jid for jid, answer in zip(jids, answers, strict=True) if answer == "OK"]


def fill(raw: RawClient, queue: str) -> list[str]:
    """Push until nothing is taken any more; the jids that were taken."""
    taken: list[str] = []
    for _ in range(1000):
        now = push(raw, queue, 100)
        taken += now
        if not now:
            return taken
    raise AssertionError("the disk is never full")


def drain(raw: RawClient, queue: str) -> list[str]:
    """Fetch and acknowledge one by one, so that each is a transaction of its own."""
    done: list[str] = []
    while (answer := raw.call(f"FETCH {queue}")) is not None:
        done.append(json.loads(answer)["jid"])
        assert raw.call("ACK " + json.dumps({"jid": done[-1]})) == "OK"
    return done


def health(server: BrokerServer) -> int:
    return httpx.get(f"{server.web_url}/health", trust_env=False, timeout=20).status_code


def assert_log(server: BrokerServer) -> None:
    log = (server.data_dir / "broker.log").read_text()
    assert log.count("the disk is full: refusing new jobs") < 5
    assert "there is room on the disk again" in log
    assert "Traceback" not in log


@pytest.mark.timeout(150)
@pytest.mark.parametrize("size_mb", DISKS_MB)
async def test_a_full_disk_refuses_pushes_and_still_lets_jobs_be_done(
    queue: str, size_mb: int
) -> None:
    if not can_make_a_file_system():
        assert not os.environ.get("CI"), "CI must be able to make a mount namespace"
        pytest.skip("this user may not make a mount namespace; the other variant runs")
    with SmallDiskBroker(size_mb) as server, RawClient(server.url) as raw:
        taken = fill(raw, queue)
        assert len(taken) > 100
        assert raw.info()["faktory"]["queues"][queue] == len(taken)
        assert health(server) == 503

        assert drain(raw, queue) == taken

        server.make_room()
        await eventually(lambda: health(server) == 200, what="there is room, and it is not seen")
        assert len(push(raw, queue, 50)) == 50
        assert raw.info()["faktory"]["queues"][queue] == 50
        assert_log(server)


@pytest.mark.timeout(150)
async def test_files_that_may_not_grow_are_like_a_full_disk(queue: str) -> None:
    """Nothing can be given up to make room here: results wait until there is some."""
    with BrokerServer() as server, RawClient(server.url) as raw:
        _, hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (FILE_LIMIT_BYTES, hard))
        taken = fill(raw, queue)
        assert len(taken) > 100
        assert health(server) == 503

        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (hard, hard))
        await eventually(lambda: health(server) == 200, what="there is room, and it is not seen")
        more = push(raw, queue, 50)
        assert len(more) == 50
        assert drain(raw, queue) == taken + more
        assert_log(server)


@pytest.mark.timeout(150)
async def test_a_start_without_room_for_the_reserve_refuses_pushes_until_there_is_some(
    queue: str,
) -> None:
    """What were taken could not be acknowledged later."""
    if not can_make_a_file_system():
        assert not os.environ.get("CI"), "CI must be able to make a mount namespace"
        pytest.skip("this user may not make a mount namespace")
    with SmallDiskBroker(FILLER_MB + 6) as server, RawClient(server.url) as raw:
        assert push(raw, queue, 10) == []
        assert health(server) == 503
        assert "no room for the reserve of 48 MiB" in server.log_text
        server.make_room()
        await eventually(lambda: health(server) == 200, what="there is room, and it is not seen")
        taken = push(raw, queue, 10)
        assert len(taken) == 10
        assert drain(raw, queue) == taken


@pytest.mark.timeout(150)
async def test_a_stop_that_could_not_store_everything_ends_with_an_error(queue: str) -> None:
    with BrokerServer() as server, RawClient(server.url) as raw:
        (jid,) = push(raw, queue, 1)
        assert raw.call(f"FETCH {queue}") is not None
        _, hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
        # No page fits, but lines of the log do: nothing of this can be written, so it is never
        # answered.
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (PAGE_BYTES, hard))
        raw.send("ACK " + json.dumps({"jid": jid}))
        await eventually(lambda: health(server) == 503)
        server.signal(signal.SIGTERM)
        assert server.wait_ended() == 1
        assert '"event": "the store failed' in server.log_text
