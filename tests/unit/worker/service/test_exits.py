"""The ends of a process, in words."""

import signal

import pytest

from manyhands.worker.service.exits import describe_exit


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (0, "exit code 0"),
        (78, "exit code 78"),
        (-signal.SIGKILL, "SIGKILL"),
        (-signal.SIGSEGV, "SIGSEGV"),
        (-40, "signal 40"),
    ],
)
def test_a_signal_has_its_name(code, said):
    assert describe_exit(code) == said
