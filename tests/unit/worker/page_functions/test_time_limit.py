"""What takes too long is ended, whatever it does."""

import asyncio
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from manyhands import Page, page
from manyhands.testing import Done, Failed, run_page
from manyhands.worker.page_functions.registry import PAGE_FUNCTIONS
from manyhands.worker.page_functions.time_limit import Overdue, TimeLimit

FAR_OFF_S = 1000.0
LIMIT_S = 0.05
BACKTRACKS = re.compile("(a|aa)+$")


@pytest.fixture(autouse=True)
def _own_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PAGE_FUNCTIONS, "functions", [])


def loop(_: Page) -> None:
    while True:
        try:
            pass
        except Exception:
            continue


def sleep(_: Page) -> None:
    time.sleep(FAR_OFF_S)


def backtrack(_: Page) -> None:
    BACKTRACKS.match("a" * 100 + "b")


async def loop_async(_: Page) -> None:
    while True:
        pass


async def wait(_: Page) -> None:
    await asyncio.sleep(FAR_OFF_S)


@pytest.mark.parametrize("function", [loop, sleep, backtrack, loop_async, wait])
def test_a_function_that_takes_too_long_has_failed(function: Callable[[Page], Any]) -> None:
    page("*")(function)
    outcome = run_page("", url="https://a.example/", function_s=LIMIT_S).outcome
    assert isinstance(outcome, Failed)
    assert outcome.message == f"took more than {LIMIT_S:g} s"


def test_an_async_function_that_is_quick_is_not_ended() -> None:
    async def quick(page: Page) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        page.emit(1)

    page("*")(quick)
    result = run_page("", url="https://a.example/", function_s=FAR_OFF_S)
    assert isinstance(result.outcome, Done) and result.items == [1]


def test_it_leaves_the_handler_and_the_timer_of_others_as_they_were() -> None:
    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    timer = signal.setitimer(signal.ITIMER_REAL, FAR_OFF_S)
    try:
        with pytest.raises(Overdue), TimeLimit(LIMIT_S):
            while True:
                pass
        assert signal.getsignal(signal.SIGALRM) is signal.default_int_handler
        assert signal.getitimer(signal.ITIMER_REAL)[0] > LIMIT_S
        assert signal.getitimer(signal.ITIMER_VIRTUAL)[0] == 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)


def test_code_in_c_that_never_looks_at_signals_ends_its_process() -> None:
    program = (
        "from manyhands.worker.page_functions.time_limit import TimeLimit\n"
        f"with TimeLimit({LIMIT_S}):\n    sum(range(10**15))\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], check=False, timeout=25)
    assert ended.returncode == -signal.SIGVTALRM
