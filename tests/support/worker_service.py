"""A worker service of several processes, as the tests of the supervisor start and look at it."""

import os

import psutil

from tests.conftest import AnyServer, StartWorker
from tests.support.worker_process import WorkerUnderTest

HANDLERS = "tests.support.handlers,tests.support.supervised_handlers"
UP_WITHIN_S = 40.0


async def start_service(
    start_worker: StartWorker, server: AnyServer, queue: str, processes: int = 2, **env: str
) -> WorkerUnderTest:
    """A service with all its children ready."""
    settings = {
        "WORKER_QUEUES": queue,
        "WORKER_HANDLERS": HANDLERS,
        "WORKER_PROCESSES": str(processes),
        "WORKER_CONCURRENCY": "10",
    }
    worker = start_worker(server.url, **(settings | env))
    for number in range(processes):
        await worker.logs(f"worker-{number} is ready", UP_WITHIN_S)
    return worker


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def running_processes(worker: WorkerUnderTest) -> list[int]:
    """All of its process group, whoever their parent is by now."""
    return [
        pid for pid in psutil.pids() if _group_of(pid) == worker.supervisor_pid and is_running(pid)
    ]


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None
