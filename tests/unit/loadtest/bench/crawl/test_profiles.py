"""Shares of libraries and functions, from what perf prints; what processes of ours have used."""

import os
import subprocess
import sys
import threading
import time

import pytest

from loadtest.bench.crawl.cpu import Usage, peak_rss_bytes, usage_of
from loadtest.bench.crawl.profiles import by_process, key_of, library_of, native_shares

SCRIPT = """\
    100/100      7f61f5bd2c42 _PyEval_EvalFrameDefault+0x1b2 (/opt/lib/libpython3.11.so.1.0)
    100/100      7f61f5bd2c42 _PyEval_EvalFrameDefault (/opt/lib/libpython3.11.so.1.0)
    100/100  ffffffff81234567 tcp_sendmsg ([kernel.kallsyms])
    100/100      7f61f5bd2c99 [unknown] (/opt/site-packages/orjson/orjson.cpython-311-x86_64.so)
    100/104      7f61f5000000 sqlite3VdbeExec (/usr/lib/libsqlite3.so.0.8.6)
  not a sample
"""


def test_samples_are_shared_out_by_process_and_thread():
    shares = by_process(native_shares(SCRIPT, {100: "crawl"}))
    assert shares["crawl"] == {
        "libpython3.11": 0.5,
        "the kernel": 0.25,
        "orjson/orjson": 0.25,
        "libpython3.11 :: _PyEval_EvalFrameDefault": 0.5,
        "the kernel :: tcp_sendmsg": 0.25,
        "orjson/orjson :: [unknown]": 0.25,
    }
    assert shares["crawl, other threads"] == {
        "libsqlite3": 1.0,
        "libsqlite3 :: sqlite3VdbeExec": 1.0,
    }


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("[kernel.kallsyms]", "the kernel"),
        ("[vdso]", "vdso"),
        (
            "/a/site-packages/resiliparse.libs/liblexbor-bac76b05.so.2.4.0",
            "resiliparse.libs/liblexbor",
        ),
        ("/a/site-packages/uvloop/loop.cpython-311-x86_64-linux-gnu.so", "uvloop/loop"),
        ("/lib/x86_64-linux-gnu/libc.so.6", "libc"),
    ],
)
def test_a_library_is_named_without_the_directories_of_this_machine(file, name):
    assert library_of(file) == name


def test_a_share_keeps_its_process_and_its_label():
    assert by_process({key_of("crawl, other threads", "a.py X: y"): 0.5}) == {
        "crawl, other threads": {"a.py X: y": 0.5}
    }


def test_what_was_used_meanwhile_is_the_difference_by_role():
    before = Usage(10.0, {"crawl": 4.0, "broker": 6.0}, {"crawl": 1.0, "broker": 0.0})
    after = Usage(19.0, {"crawl": 9.0, "broker": 8.0, "other": 1.0}, {"crawl": 3.0, "broker": 0.5})
    used = after.since(before)
    assert used.total_s == 9.0
    assert used.by_role == {"crawl": 5.0, "broker": 2.0, "other": 1.0}
    assert used.of_threads == {"crawl": 2.0, "broker": 0.5}


def work(seconds: float) -> None:
    """Until this thread has used so much of a processor, however long that takes."""
    until_s = time.thread_time() + seconds
    while time.thread_time() < until_s:
        pass


def test_processes_that_ended_count_and_threads_are_told_apart():
    pid = os.getpid()
    before = usage_of([pid], {pid: "me"})
    thread = threading.Thread(target=work, args=(0.2,))
    thread.start()
    thread.join()
    code = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=20)
    used = usage_of([pid], {pid: "me"}).since(before)
    # It is gone, but its parent was told.
    assert used.total_s - used.by_role["me"] >= 0.25
    assert 0.15 <= used.of_threads["me"] <= used.by_role["me"]
    assert peak_rss_bytes([pid]) > 2**20
