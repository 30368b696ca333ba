"""Whatever a service says is lines of its log, each one JSON object."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent.parent
IMPORTS = """
import asyncio, json, logging, os, sys, threading, traceback, warnings
from manyhands.shared.errors import ConfigError
from manyhands.shared.logs import configure_logs, get_logger, tell_end
from manyhands.shared.taken_output import take_in_output
"""
BEGIN = f"""{IMPORTS}
configure_logs("error", service="worker", process_id="fetch-0")
take_in_output()
"""


def said(program: str, *, begin: str = BEGIN) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-c", begin + program],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=50,
    )
    return [json.loads(line) for line in (done.stderr + done.stdout).splitlines()]


def test_prints_are_lines_at_any_level() -> None:
    first, second, third = said("print('Hello', 'you'); print('one\\ntwo', end='', flush=True)")
    assert (first["level"], first["component"], first["event"]) == ("info", "stdout", "Hello you")
    assert (first["service"], first["process_id"]) == ("worker", "fetch-0")
    assert [second["event"], third["event"]] == ["one", "two"]


def test_what_is_a_json_object_already_stays_as_it_is() -> None:
    lines = said("print(json.dumps({'_aws': {}, 'jobs': 3})); print('[1]')")
    assert {"_aws": {}, "jobs": 3} in lines
    assert "[1]" in [line.get("event") for line in lines]


@pytest.mark.parametrize(
    ("program", "event", "exception"),
    [
        ("raise ValueError('on purpose')", "uncaught exception", "ValueError: on purpose"),
        (
            "thread = threading.Thread(target=lambda: 1 / 0); thread.start(); thread.join()",
            "uncaught exception in a thread",
            "ZeroDivisionError",
        ),
        (
            "async def fail():\n    raise ValueError('on purpose')\n"
            "async def main():\n    task = asyncio.create_task(fail())\n"
            "    await asyncio.sleep(0)\n    del task\n"
            "asyncio.run(main())",
            "Task exception was never retrieved",
            "ValueError: on purpose",
        ),
    ],
)
def test_an_exception_that_nobody_caught_is_one_line(
    program: str, event: str, exception: str
) -> None:
    (line,) = said(program)
    assert line["event"].startswith(event)
    assert exception in line["exception"]


def test_what_is_written_to_stderr_is_a_line_for_each_line() -> None:
    lines = said("try:\n    1 / 0\nexcept ZeroDivisionError:\n    traceback.print_exc()")
    assert {line["component"] for line in lines} == {"stderr"}
    assert lines[0]["event"].startswith("Traceback")
    assert lines[-1]["event"].startswith("ZeroDivisionError")


def test_a_warning_of_a_library_is_a_line() -> None:
    begin = BEGIN.replace('"error"', '"info"')
    (line,) = said(
        "warnings.warn('old', DeprecationWarning)\n",
        begin=begin.replace(
            "take_in_output()\n", "take_in_output()\nwarnings.simplefilter('always')\n"
        ),
    )
    assert (line["component"], line["level"]) == ("py.warnings", "warning")
    assert "DeprecationWarning: old" in line["event"]


def test_why_a_service_ends_is_a_line_whether_or_not_its_logs_were_set_up() -> None:
    end = "tell_end('worker', ConfigError('no such queue'))"
    (line,) = said(end)
    assert (line["level"], line["component"], line["event"]) == (
        "critical",
        "worker",
        "no such queue",
    )
    (line,) = said(end, begin=IMPORTS)
    assert (line["event"], line["service"]) == ("no such queue", "worker")


def test_logs_that_are_configured_again_do_not_log_themselves() -> None:
    """As in a forked process."""
    (line,) = said("configure_logs('info', service='again'); get_logger('any').info('hello')")
    assert (line["event"], line["service"]) == ("hello", "again")
