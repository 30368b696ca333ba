"""What a server gives an application of a request: its body, piece by piece."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from manyhands.api.bodies import Receive
from manyhands.api.problems import Problem


def body_of(*pieces: bytes, ends: bool = True) -> Receive:
    """The pieces in turn; then, if the body has no end, silence."""
    messages = [
        {"type": "http.request", "body": piece, "more_body": not ends or number < len(pieces)}
        for number, piece in enumerate(pieces, 1)
    ]
    return _in_turn(messages, after=_silence)


def vanishing(*pieces: bytes) -> Receive:
    """The pieces in turn; then the client is gone."""
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    return _in_turn([*messages, {"type": "http.disconnect"}], after=_silence)


def never_stopped() -> asyncio.Future[Problem]:
    return asyncio.get_running_loop().create_future()


def _in_turn(messages: Iterable[dict[str, Any]], after: Callable[[], Any]) -> Receive:
    remaining = iter(messages)

    async def receive() -> dict[str, Any]:
        # As in a real server: others have their turn.
        await asyncio.sleep(0)
        for message in remaining:
            return message
        await after()
        raise AssertionError("a body goes on after its end")

    return receive


async def _silence() -> None:
    await asyncio.Event().wait()
