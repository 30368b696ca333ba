"""One child process in its supervisor's hand: the link, its end, and what it must not inherit."""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from manyhands.shared.settings import Settings
from manyhands.worker.process.child import ChildSpec
from manyhands.worker.service.link import Backlog, Figures
from manyhands.worker.service.stages import ProcessGroup
from manyhands.worker.supervision import child_handle
from manyhands.worker.supervision.child_handle import ChildHandle
from tests.support import odd_children
from tests.support.odd_children import MANY_SAMPLES
from tests.support.waiting import eventually

StartChild = Callable[..., ChildHandle]
START_METHODS = ("spawn", "forkserver", "fork")


@pytest.fixture
async def start_child(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[StartChild]:
    """Start one of the odd children; gone with the test."""
    started: list[ChildHandle] = []

    def start(
        entry: Callable[..., None],
        method: str = "fork",
        keep_figures: Callable[[Figures], None] = lambda _: None,
    ) -> ChildHandle:
        monkeypatch.setattr(child_handle, "run_child", entry)
        settings: Any = Settings().model_copy(
            update={"worker": Settings().worker.model_copy(update={"start_method": method})}
        )
        spec = ChildSpec(ProcessGroup("odd", 1, 5), 0, 0, 3, settings)
        child = ChildHandle(spec, keep_figures, asyncio.get_running_loop().time())
        child.start()
        started.append(child)
        return child

    yield start
    for child in started:
        child.kill()
        await child.has_ended.wait()


@pytest.mark.parametrize("method", START_METHODS)
async def test_what_a_child_says_arrives(start_child: StartChild, method: str) -> None:
    child = start_child(odd_children.says_little, method)

    await child.has_come_up.wait()

    assert child.is_ready
    assert child.wids == ["a", "b"]
    assert [(stage.name, stage.queues) for stage in child.stages] == [("s", ["q"])]
    child.tell(Backlog({"q": 1}, {"s": 0.5}))
    await child.has_ended.wait()
    assert child.told_paces == {"s": 0.5}
    assert (child.exit_code, child.end_is_clean) == (0, True)


async def test_a_long_message_keeps_its_frame_and_does_not_hold_up_the_loop(
    start_child: StartChild,
) -> None:
    kept: list[Figures] = []
    turns_of_loop = 0
    child = start_child(odd_children.says_much, keep_figures=kept.append)

    while not child.has_ended.is_set():
        turns_of_loop += 1
        await asyncio.sleep(0)

    assert [sample.value for sample in kept[0].families[0].samples] == list(range(MANY_SAMPLES))
    assert child.wids == ["last"]
    assert turns_of_loop > 20


async def test_what_is_not_understood_is_a_sign_of_life_all_the_same(
    start_child: StartChild, capsys: pytest.CaptureFixture[str]
) -> None:
    child = start_child(odd_children.says_nonsense)
    child.watch.silence_s = 100.0

    await eventually(lambda: child.wids == ["after"])

    assert child.watch.silence_s == 0.0
    assert capsys.readouterr().out.count("cannot read") == 1


async def test_a_child_that_takes_no_message_costs_its_parent_no_time_and_no_memory(
    start_child: StartChild,
) -> None:
    child = start_child(odd_children.is_deaf)
    await child.has_spoken.wait()
    backlog = Backlog({f"queue-{n}": n for n in range(1000)}, {})

    for _ in range(2000):
        child.tell(backlog)
        await asyncio.sleep(0)

    assert child._writer is not None
    assert child._writer.transport.get_write_buffer_size() < 100_000
    child.kill()
    await child.has_ended.wait()
    assert (child.exit_text, child.end_is_clean) == ("SIGKILL", False)
    # Too late for all of these, and no error.
    child.tell(backlog)
    child.drain()
    child.kill()


@pytest.mark.parametrize("method", START_METHODS)
async def test_the_exit_code_is_told(start_child: StartChild, method: str) -> None:
    child = start_child(odd_children.ends, method)

    await child.has_come_up.wait()

    assert not child.is_ready
    assert child.exit_text == "exit code 3"


@pytest.mark.parametrize("method", ["spawn", "fork"])
async def test_the_end_is_seen_though_a_process_of_the_childs_own_lives_on(
    start_child: StartChild, method: str
) -> None:
    child = start_child(odd_children.leaves_a_process, method)
    await child.has_spoken.wait()
    (left,) = child.wids
    try:

        def has_ended() -> bool:
            child.look_for_end()
            return child.has_ended.is_set()

        await eventually(has_ended)
        assert child.exit_code == 0
    finally:
        os.kill(int(left), signal.SIGKILL)


@pytest.mark.parametrize("method", START_METHODS)
async def test_a_child_has_no_socket_no_loop_and_no_signal_of_its_parent(
    start_child: StartChild, method: str
) -> None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, lambda: None)
    first = start_child(odd_children.is_deaf, "fork")
    await first.has_spoken.wait()
    with socket.create_server(("127.0.0.1", 0)):
        child = start_child(odd_children.lists_what_it_has, method)
        await child.has_spoken.wait()
    loop.remove_signal_handler(signal.SIGHUP)

    # Its link, and neither the parent's end of it, nor those of the others, nor the listener.
    assert child.wids == ["socket 0", "wakes -1"]


async def test_signals_for_the_parent_stay_with_the_parent(start_child: StartChild) -> None:
    """Sent to a child that has just been forked, with the parent's handlers still in place."""
    loop = asyncio.get_running_loop()
    told: list[str] = []
    loop.add_signal_handler(signal.SIGTERM, told.append, "SIGTERM")
    try:
        children = []
        for _ in range(10):
            children.append(start_child(odd_children.is_deaf, "fork"))
            children[-1].drain()
        for child in children:
            await child.has_ended.wait()
        await asyncio.sleep(0)
    finally:
        loop.remove_signal_handler(signal.SIGTERM)

    assert told == []
    assert {child.exit_text for child in children} == {"SIGTERM"}
    assert all(child.end_is_clean for child in children)


@pytest.mark.parametrize("method", START_METHODS)
async def test_signals_to_the_whole_group_do_no_harm_to_a_child_that_only_starts(
    start_child: StartChild, method: str
) -> None:
    """From a terminal: by themselves, each of them ends or stops a process."""
    child = start_child(odd_children.says_little, method)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTSTP, signal.SIGUSR1):
        child.signal(number)

    await child.has_come_up.wait()

    assert child.is_ready
