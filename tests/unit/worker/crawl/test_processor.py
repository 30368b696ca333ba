"""The share of a thread's time in which it has work."""

import threading
import time

from manyhands.worker.crawl import processor
from manyhands.worker.crawl.processor import ProcessorShare, thread_busy_s


def work_for(seconds: float) -> None:
    end = thread_busy_s() + seconds
    while thread_busy_s() < end:
        pass


def test_a_thread_that_computes_has_work_all_the_time_and_one_that_sleeps_has_none() -> None:
    share = ProcessorShare(time.monotonic(), over_s=60)
    assert share.percent() == 0
    work_for(0.1)
    share.look(time.monotonic())
    assert share.percent() > 80
    share = ProcessorShare(time.monotonic(), over_s=60)
    time.sleep(0.1)
    share.look(time.monotonic())
    assert share.percent() < 50


def test_only_the_last_seconds_count(monkeypatch) -> None:
    busy = iter([0.0, 1.0, 2.0, 2.0, 2.0, 2.5])
    monkeypatch.setattr(processor, "thread_busy_s", lambda: next(busy))
    share = ProcessorShare(0.0, over_s=2)
    for now, percent in ((1.0, 100), (2.0, 100), (3.0, 50), (4.0, 0), (5.0, 25)):
        share.look(now)
        assert share.percent() == percent


def test_the_work_of_other_threads_does_not_count() -> None:
    before = thread_busy_s()
    thread = threading.Thread(target=work_for, args=(0.2,))
    thread.start()
    thread.join()
    assert thread_busy_s() - before < 0.15
