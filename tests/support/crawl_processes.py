"""The processes of a crawl under test: which of them own shards, and how much memory they take."""

from pathlib import Path

import psutil

from devservers import BrokerServer
from loadtest.bench.crawl.cpu import peak_rss_bytes
from tests.support.worker_process import WorkerUnderTest

MIB = 1024 * 1024


def crawl_children(worker: WorkerUnderTest) -> list[int]:
    """The processes that own shards: those that have a shard's file open."""
    found = []
    for pid in worker.children:
        try:
            files = [str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:
            continue
        if any("shard-" in file for file in files):
            found.append(pid)
    return found


def rss_mib(pid: int) -> float:
    return float(psutil.Process(pid).memory_info().rss) / MIB


def peak_mib(worker: WorkerUnderTest, broker: BrokerServer) -> dict[str, int]:
    """The most memory that any process had so far, by what it does."""
    crawl = crawl_children(worker)
    parse = [pid for pid in worker.children if pid not in crawl]
    roles = {"crawl": crawl, "parse": parse, "broker": [broker.pid]}
    return {
        role: max((peak_rss_bytes([pid]) // MIB for pid in pids), default=0)
        for role, pids in roles.items()
    }
