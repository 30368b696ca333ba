"""The log: its fields, its two looks, and the libraries in it."""

import io
import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from manyhands.shared.logs import FIRST_FIELDS, configure_logs, get_logger
from tests.support.log_settings import restored_logs


class Stderr(io.StringIO):
    """State: whether it says that it is a terminal, and how often it was written to."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal
        self.writes = 0

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, text: str) -> int:
        self.writes += 1
        return super().write(text)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]


StartLogs = Callable[..., Stderr]


@pytest.fixture
def start_logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[StartLogs]:
    """Configure them; what is written from then on is in what it returns."""

    def start(level: str, *, is_terminal: bool = False, **fixed: str) -> Stderr:
        stderr = Stderr(is_terminal)
        monkeypatch.setattr(sys, "stderr", stderr)
        configure_logs(level, **fixed)
        return stderr

    with restored_logs():
        yield start


CHILD = {"service": "worker", "process_type": "fetch", "process_id": "fetch-0"}


def test_every_line_has_the_fixed_fields(start_logs):
    stderr = start_logs("info", **CHILD)
    get_logger("source").warning("a lane broke", reason="on purpose")
    (line,) = stderr.lines()
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "level": "warning",
        "component": "source",
        "event": "a lane broke",
        **CHILD,
        "pid": os.getpid(),
        "reason": "on purpose",
    }


def test_the_fields_have_an_order(start_logs):
    stderr = start_logs("info", **CHILD)
    get_logger("source").info("up", lanes=3)
    (line,) = stderr.lines()
    assert list(line) == [*FIRST_FIELDS, *CHILD, "pid", "lanes"]


def test_a_line_is_one_write(start_logs):
    """Several processes write to the same file."""
    stderr = start_logs("info")
    get_logger("source").info("up")
    assert stderr.writes == 1


def test_a_log_on_a_full_disk_stops_nobody_and_says_later_what_is_missing(start_logs, monkeypatch):
    stderr = start_logs("info")
    log = get_logger("any")

    def full(text: str) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(stderr, "write", full)
        log.info("1")
        log.info("2")
    log.info("3")
    assert [line["event"] for line in stderr.lines()] == [
        "3",
        "2 lines of the log could not be written",
    ]


def test_a_fixed_field_gives_way_to_one_of_the_line(start_logs):
    stderr = start_logs("info", **CHILD)
    get_logger("supervisor").info("a child ended", process_id="parse-3")
    assert stderr.lines()[0]["process_id"] == "parse-3"


@pytest.mark.parametrize(
    ("level", "said"),
    [("debug", 4), ("info", 3), ("warning", 2), ("error", 1), ("ERROR", 1)],
)
def test_lines_below_the_level_are_not_written(start_logs, level, said):
    stderr = start_logs(level)
    log = get_logger("any")
    log.debug("1")
    log.info("2")
    log.warning("3")
    log.error("4")
    assert len(stderr.lines()) == said


def test_threads_have_the_fixed_fields_too(start_logs):
    stderr = start_logs("info", **CHILD)
    thread = threading.Thread(target=lambda: get_logger("heartbeat").info("beat"))
    thread.start()
    thread.join()
    assert stderr.lines()[0]["process_id"] == "fetch-0"


def test_an_exception_is_part_of_its_line(start_logs):
    stderr = start_logs("info")
    try:
        raise ValueError("on purpose")
    except ValueError:
        get_logger("any").exception("it went wrong")
    (line,) = stderr.lines()
    assert line["event"] == "it went wrong"
    assert "ValueError: on purpose" in line["exception"]


def test_libraries_look_the_same(start_logs):
    stderr = start_logs("info", **CHILD)
    try:
        raise ValueError("on purpose")
    except ValueError:
        logging.getLogger("aiohttp.server").exception("Error handling %s", "a request")
    (line,) = stderr.lines()
    assert list(line)[:4] == list(FIRST_FIELDS)
    assert line["component"] == "aiohttp.server"
    assert line["event"] == "Error handling a request"
    assert line["level"] == "error"
    assert line["process_id"] == "fetch-0"
    assert "ValueError: on purpose" in line["exception"]


@pytest.mark.parametrize(("level", "said"), [("debug", 2), ("info", 2), ("error", 1)])
def test_libraries_speak_from_warnings_on(start_logs, level, said):
    stderr = start_logs(level)
    library = logging.getLogger("asyncio")
    library.debug("Using selector")
    library.info("hello")
    library.warning("slow")
    library.error("broken")
    assert len(stderr.lines()) == said


def test_a_second_call_replaces_the_first(start_logs):
    """A forked process configures anew what its parent had configured."""
    first = start_logs("info", process_id="supervisor")
    stderr = start_logs("info", process_id="fetch-0")
    logging.getLogger("asyncio").warning("slow")
    get_logger("any").info("hello")
    assert [line["process_id"] for line in stderr.lines()] == ["fetch-0", "fetch-0"]
    assert first.lines() == []


def test_on_a_terminal_lines_are_for_people(start_logs):
    stderr = start_logs("info", is_terminal=True, **CHILD)
    get_logger("source").info("up", lanes=3)
    logging.getLogger("asyncio").warning("slow")
    first, second = stderr.getvalue().splitlines()
    assert "up" in first and "lanes" in first and "fetch-0" in first
    assert "slow" in second and "asyncio" in second
    for line in (first, second):
        assert not line.startswith("{")
        assert str(os.getpid()) not in line


def test_on_a_terminal_an_exception_is_shown(start_logs):
    stderr = start_logs("info", is_terminal=True)
    try:
        raise ValueError("on purpose")
    except ValueError:
        get_logger("any").exception("it went wrong")
    assert "on purpose" in stderr.getvalue()
