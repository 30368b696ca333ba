"""The control store, asked from the event loop, while it is away."""

from typing import Any, cast

import pytest

from manyhands.shared.crawl.store.absence import Absence
from manyhands.shared.crawl.store.errors import StateAway
from manyhands.shared.crawl.store.protocol import Store
from manyhands.worker.crawl.shards import control as module
from manyhands.worker.crawl.shards.control import Control


class AwayStore:
    """A store and its control store. State: how often it is still away, and who left."""

    def __init__(self, times: int) -> None:
        self.absences = [Absence("db")]
        self.times = times
        self.left: list[str] = []

    def answer(self) -> str:
        if self.times:
            self.times -= 1
            raise StateAway("the server is away")
        return "answer"

    def open_control(self) -> "AwayStore":
        self.answer()
        return self

    def tag(self) -> str:
        return "tag"

    def readers(self) -> Any:
        return self

    def leave(self, member: str) -> None:
        self.answer()
        self.left.append(member)

    def close(self) -> None: ...


def control_of(store: AwayStore) -> Control:
    return Control(cast("Store", store))


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AGAIN_S", 0.0)


async def test_a_question_waits_until_the_store_is_there() -> None:
    store = AwayStore(times=3)
    control = control_of(store)
    await control.open()
    assert control.tag == "tag"
    store.times = 3
    assert await control.ask(lambda asked: cast("Any", asked).answer()) == "answer"
    assert store.times == 0
    await control.close("me")
    assert store.left == ["me"]


async def test_who_wants_to_know_is_told_that_it_is_away() -> None:
    store = AwayStore(times=0)
    control = control_of(store)
    await control.open()
    store.times = 1
    with pytest.raises(StateAway):
        await control.ask_once(lambda asked: cast("Any", asked).answer())
    await control.close("me")


async def test_a_store_that_is_away_holds_nobody_up_who_leaves() -> None:
    store = AwayStore(times=0)
    control = control_of(store)
    await control.open()
    store.times = 10**9
    await control.close("me")
    assert store.left == []
