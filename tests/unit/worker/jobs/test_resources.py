"""What handlers keep open is closed when the process stops, all of it."""

from manyhands.worker.jobs.resources import Resources


async def test_all_are_closed_once_the_last_one_first():
    resources, closed = Resources(), []
    for name in ("a", "b"):

        async def close(name: str = name) -> None:
            closed.append(name)

        resources.close_at_stop(close)
    await resources.close()
    await resources.close()
    assert closed == ["b", "a"]


async def test_one_that_cannot_be_closed_keeps_no_other_open():
    resources, closed = Resources(), []

    async def close() -> None:
        closed.append("a")

    async def fail() -> None:
        raise RuntimeError("no")

    resources.close_at_stop(close)
    resources.close_at_stop(fail)
    await resources.close()
    assert closed == ["a"]
