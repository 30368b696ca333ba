"""The state in the hands of several processes: killed, stopped, and taken over."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from manyhands.shared.crawl.states import UrlState
from manyhands.shared.crawl.store.sqlite.directory import (
    generations,
    open_control,
    open_reader,
    open_shard,
)
from manyhands.shared.crawl.store.sqlite.reshard import reshard
from tests.support.imports import ROOT
from tests.support.state_content import NOW, content, fill, urls_of

WAIT_S = 20.0
DOMAIN = "example.com"

ADMITS = f"""
import sys
from pathlib import Path
from manyhands.shared.crawl.store.sqlite.directory import open_shard
from tests.support.state_content import NOW, urls_of
store = open_shard(Path(sys.argv[1]), 1, 0, 1, NOW)
urls = urls_of("{DOMAIN}", 10_000)
for start in range(0, len(urls), 10):
    with store.transaction():
        store.admit(1, urls[start : start + 10], NOW)
    print(start + 10, flush=True)
"""
STOPS_IN_A_TRANSACTION = f"""
import os, signal, sys
from pathlib import Path
from manyhands.shared.crawl.store.sqlite.directory import open_shard
from manyhands.shared.crawl.store.model import LeaseLost
from tests.support.state_content import NOW, urls_of
store = open_shard(Path(sys.argv[1]), 1, 0, 1, NOW)
with store.transaction():
    store.admit(1, urls_of("{DOMAIN}", 5), NOW)
    print("in it", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
print("committed", flush=True)
sys.stdin.readline()
try:
    with store.transaction():
        pass
except LeaseLost:
    print("lost", flush=True)
"""
RESHARDS = """
import sys
from pathlib import Path
from manyhands.shared.crawl.store.whole import old_shard
from manyhands.shared.crawl.store.sqlite.directory import open_control
from manyhands.shared.crawl.store.sqlite.reshard import reshard
old_shard.ROWS_AT_ONCE = 50
directory = Path(sys.argv[1])
reshard(directory, open_control(directory), 6, lambda *at: print(*at, flush=True))
"""

Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with contextlib.ExitStack() as running:

        def start(program: str) -> "subprocess.Popen[str]":
            process = subprocess.Popen(
                [sys.executable, "-c", program, str(tmp_path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
            )
            running.enter_context(process)
            running.callback(process.kill)
            return process

        yield start


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.01)


def test_what_a_killed_owner_has_committed_is_there(tmp_path, start):
    process = start(ADMITS)
    for _ in range(30):
        said = int(line(process))
    process.kill()
    process.wait()
    with contextlib.closing(open_shard(tmp_path, 1, 0, 2, NOW)) as store:
        counters = store.counters(1)
        rows = store.urls(1, UrlState.QUEUED, 0, 1_000_000)
    assert counters["admitted"] == counters["queued"] == len(rows) >= said
    assert len(rows) % 10 == 0
    assert [row.url for row in rows] == [one.url for one in urls_of(DOMAIN, 10_000)[: len(rows)]]


def test_an_owner_that_was_stopped_in_a_transaction_ends_it_before_the_next_one_begins(
    tmp_path, start
):
    process = start(STOPS_IN_A_TRANSACTION)
    assert line(process) == "in it"
    wait_until(lambda: _is_stopped(process.pid))
    reader = open_reader(tmp_path, 1, 0)
    assert reader is not None
    with contextlib.closing(reader):
        # A stopped owner keeps nobody from reading.
        assert reader.counters(1)["admitted"] == 0
    os.kill(process.pid, signal.SIGCONT)
    with contextlib.closing(open_shard(tmp_path, 1, 0, 2, NOW)) as store:
        assert store.counters(1)["admitted"] == 10
        assert line(process) == "committed"
        assert process.stdin is not None
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert line(process) == "lost"


@pytest.mark.parametrize("after_lines", [1, 4, 13])
def test_a_reshard_that_is_killed_goes_on(tmp_path, start, after_lines):
    fill(tmp_path, 4)
    expected = content(tmp_path)
    process = start(RESHARDS)
    for _ in range(after_lines):
        assert line(process)
    process.kill()
    process.wait()
    with contextlib.closing(open_control(tmp_path)) as control:
        reshard(tmp_path, control, 6, lambda *_: None)
        assert control.layout(6).shards == 6
    assert content(tmp_path) == expected
    assert len(generations(tmp_path)) == 1


def _is_stopped(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "T"
