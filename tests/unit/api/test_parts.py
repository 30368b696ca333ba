"""What the routes share: INFO asked once a second, and the end of the service."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from manyhands.api.batcher import Batcher
from manyhands.api.budget import Shares
from manyhands.api.intake import Intake
from manyhands.api.metrics import ApiMetrics
from manyhands.api.parts import ANSWER_WITHIN_S, Parts, broker_failed
from manyhands.api.problems import Problem
from manyhands.shared.budget import ByteBudget
from manyhands.shared.errors import (
    ConnectionLost,
    FaktoryError,
    NotSent,
    ProtocolError,
    ServerError,
)
from manyhands.shared.faktory.client import Client
from manyhands.shared.settings import ApiSettings
from tests.support.virtual_time import run_in_virtual_time


class FakeClient:
    """State: how often it was asked."""

    def __init__(self) -> None:
        self.is_up = True
        self.asked = 0
        self.takes_s = 0.01
        self.error: FaktoryError | None = None
        self.queues: dict[str, int] = {}

    async def info(self) -> dict[str, Any]:
        self.asked += 1
        await asyncio.sleep(self.takes_s)
        if self.error is not None:
            raise self.error
        queues = {"queues": self.queues} if self.queues else {}
        return {"faktory": {"number": self.asked, **queues}}


def make_parts(client: FakeClient) -> Parts:
    return Parts(
        settings=ApiSettings(),
        client=cast("Client", client),
        batcher=cast("Batcher", None),
        intake=cast("Intake", None),
        bulk=Shares(1, keys=1),
        streams=Shares(1, keys=1),
        pages=ByteBudget(1),
        metrics=ApiMetrics(),
        web=cast("Any", None),
        run_directory=Path(),
    )


def test_however_many_ask_the_broker_is_asked_once_a_second():
    async def run() -> None:
        client = FakeClient()
        parts = make_parts(client)
        answers = await asyncio.gather(*(parts.info() for _ in range(50)))
        assert client.asked == 1
        assert all(answer == {"faktory": {"number": 1}} for answer in answers)
        await asyncio.sleep(0.5)
        await parts.info()
        assert client.asked == 1
        await asyncio.sleep(0.6)
        assert (await parts.info())["faktory"]["number"] == 2

    run_in_virtual_time(run())


def test_a_broker_that_is_away_is_not_waited_for():
    async def run() -> None:
        client = FakeClient()
        client.is_up = False
        with pytest.raises(Problem) as caught:
            await make_parts(client).info()
        assert (caught.value.status, client.asked) == (503, 0)
        assert asyncio.get_running_loop().time() == 0

    run_in_virtual_time(run())


def test_a_failed_question_is_asked_again():
    async def run() -> None:
        client = FakeClient()
        parts = make_parts(client)
        client.error = ConnectionLost("gone")
        with pytest.raises(Problem):
            await parts.info()
        client.error = None
        assert (await parts.info())["faktory"]["number"] == 2

    run_in_virtual_time(run())


def test_a_broker_that_says_nothing_is_not_waited_for_either():
    async def run() -> None:
        client = FakeClient()
        client.takes_s = 1000
        parts = make_parts(client)
        problems = await asyncio.gather(*(parts.info() for _ in range(5)), return_exceptions=True)
        assert [getattr(problem, "status", None) for problem in problems] == [503] * 5
        assert asyncio.get_running_loop().time() == pytest.approx(ANSWER_WITHIN_S)

    run_in_virtual_time(run())


def test_who_gives_up_does_not_take_the_answer_from_others():
    async def run() -> None:
        client = FakeClient()
        parts = make_parts(client)
        first, second = (asyncio.ensure_future(parts.info()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second)["faktory"]["number"] == 1

    run_in_virtual_time(run())


@pytest.mark.parametrize(
    ("error", "status", "outcome"),
    [
        (ServerError("ERR", "no such thing"), 502, None),
        (NotSent("no connection"), 503, None),
        (ConnectionLost("gone"), 503, "unknown"),
        (ProtocolError("expected OK"), 503, "unknown"),
    ],
)
def test_a_command_that_failed_says_whether_it_may_have_been_done(error, status, outcome):
    problem = broker_failed(error)
    assert (problem.status, problem.more.get("outcome")) == (status, outcome)


async def test_the_end_of_the_service_stops_every_stream_and_refuses_the_next():
    parts = make_parts(FakeClient())
    parts.refuse_if_draining()
    with parts.stoppable() as ended:
        pass
    with parts.stoppable() as one, parts.stoppable() as two:
        two.set_result(Problem(503, "the broker went away"))
        parts.begin_draining()
        parts.begin_draining()
        assert one.result().status == 503
        assert two.result().detail == "the broker went away"
    assert not ended.done()
    with pytest.raises(Problem, match="shutting down"):
        parts.refuse_if_draining()


def test_the_marks_of_stores_are_no_queues_that_wait():
    async def run() -> None:
        client = FakeClient()
        client.queues = {"fetch.01": 2, "manyhands.state.9f03a1c2d4": 1}
        parts = make_parts(client)
        assert (await parts.info())["faktory"]["queues"] == {"fetch.01": 2}

    run_in_virtual_time(run())
