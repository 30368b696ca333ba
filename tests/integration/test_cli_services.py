"""Services that a command starts: what is said when one does not, and that none is left behind."""

import asyncio
import sys
from pathlib import Path

import pytest

from manyhands.cli.services import Place, ServiceFailed, broker, service
from tests.support.cli_command import ROOT, environment, processes_in
from tests.support.waiting import eventually

LASTING = """
import asyncio, pathlib, sys
from manyhands.cli.services import Place, broker

async def main():
    place = Place(pathlib.Path(sys.argv[1]))
    place.make()
    async with broker(place) as started:
        print(started.url, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path / "data")
    place.make()
    return place


async def test_services_end_with_a_command_that_is_killed_outright(tmp_path):
    command = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", LASTING, str(tmp_path)),
        cwd=ROOT,
        env=environment({}),
        stdout=asyncio.subprocess.PIPE,
    )
    assert command.stdout is not None
    assert (await command.stdout.readline()).startswith(b"tcp://127.0.0.1:")
    assert processes_in(tmp_path)
    command.kill()
    await command.communicate()
    await eventually(lambda: not processes_in(tmp_path), 20, "the broker is still there")


async def test_a_service_that_cannot_start_is_told_in_its_own_words(place):
    with pytest.raises(ServiceFailed) as caught:
        async with broker(place, {"BROKER_SYNC": "perhaps"}):
            pass
    assert "the broker did not start" in str(caught.value)
    assert "BROKER_SYNC" in str(caught.value)


async def test_a_directory_that_is_in_use_is_told(place):
    async with broker(place):
        with pytest.raises(ServiceFailed, match="the broker did not start"):
            async with broker(place):
                pass


async def test_the_caller_s_own_variables_do_not_reach_a_service(place, monkeypatch):
    monkeypatch.setenv("BROKER_SYNC", "perhaps")
    async with broker(place) as started:
        assert started.url.startswith("tcp://127.0.0.1:")


async def test_a_service_that_ends_by_itself_is_told_with_its_exit_code(place):
    async with broker(place) as started:
        started.service.check()
        started.service.process.kill()
        await started.service.process.wait()
        with pytest.raises(ServiceFailed, match="the broker ended with -9"):
            started.service.check()


async def test_a_command_that_is_cancelled_kills_what_it_has_started(place):
    entered = asyncio.Event()

    async def command() -> None:
        async with service("broker", place, {"BROKER_DATA": str(place.broker_data)}):
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(command())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert processes_in(place.directory) == []


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ServiceFailed, match="cannot write to"):
        Place(tmp_path / "file").make()
