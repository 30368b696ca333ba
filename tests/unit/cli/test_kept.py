"""A service that ends by itself comes back, later each time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from manyhands.cli import kept
from manyhands.cli.kept import FIRST_WAIT_S, RECOVERED_AFTER_S, Kept
from manyhands.cli.services import Service, ServiceFailed, last_words

# No process has such a number.
NOBODY = 2**30


class Host:
    """State: the time, the processes so far, what was said, and whether one may start."""

    def __init__(self, log: Path) -> None:
        self.now = 1000.0
        self.processes: list[Any] = []
        self.said: list[str] = []
        self.may_start = True
        self._log = log
        log.write_bytes(b'{"event": "gone", "level": "error", "reason": "no disk"}\n')

    @asynccontextmanager
    async def start(self) -> AsyncIterator[Any]:
        if not self.may_start:
            raise ServiceFailed("the broker did not start: no disk")
        self.processes.append(SimpleNamespace(returncode=None, pid=NOBODY))
        service = Service("broker", cast("Any", self.processes[-1]), self._log, 0)
        yield SimpleNamespace(service=service)

    def end(self) -> None:
        self.processes[-1].returncode = -9


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    host = Host(tmp_path / "broker.log")
    monkeypatch.setattr(kept, "time", SimpleNamespace(monotonic=lambda: host.now))
    return host


async def test_it_is_started_again_after_a_while(host: Host) -> None:
    async with Kept(host.start, host.said.append) as broker:
        await broker.look()
        assert host.said == []
        host.end()
        await broker.look()
        assert host.said[0].startswith("the broker ended with -9: gone: no disk (log: ")
        assert host.said[0].endswith("; it is started again in 1 s")
        await broker.look()
        assert len(host.processes) == 1
        host.now += FIRST_WAIT_S
        await broker.look()
        assert len(host.processes) == 2
        assert host.said[1:] == ["the broker runs again"]
        assert not broker.running.service.has_ended


async def test_who_dies_again_and_again_waits_longer_until_it_has_recovered(host: Host) -> None:
    async with Kept(host.start, host.said.append) as broker:
        for wait_s in (1, 2, 4):
            host.end()
            await broker.look()
            assert host.said[-1].endswith(f"again in {wait_s} s")
            host.now += wait_s
            await broker.look()
        host.may_start = False
        host.end()
        await broker.look()
        host.now += 8
        await broker.look()
        assert host.said[-1] == "the broker did not start: no disk; it is started again in 16 s"
        host.may_start = True
        host.now += 16
        await broker.look()
        host.now += RECOVERED_AFTER_S + 1
        host.end()
        await broker.look()
        assert host.said[-1].endswith("again in 1 s")


async def test_a_first_start_that_fails_is_an_error(host: Host) -> None:
    host.may_start = False
    with pytest.raises(ServiceFailed):
        async with Kept(host.start, host.said.append):
            pass


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("", "it said nothing"),
        ("broker: BROKER_SYNC: wrong\n", "broker: BROKER_SYNC: wrong"),
        ('{"event": "ready", "level": "info"}\nTraceback\nOSError: x\n\n', "OSError: x"),
        ('Traceback\n{"event": "ready", "level": "info"}\n', "ready"),
        ('{"event": "port taken", "level": "error"}\n{"event": "bye", "level": "info"}',
         "port taken"),
    ],
)  # fmt: skip
def test_the_last_words_of_a_service_are_one_line(log: str, words: str) -> None:
    assert last_words(log) == words
