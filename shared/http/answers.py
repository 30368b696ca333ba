"""Large answers of services that are built on Starlette: counted while they are held, sent piece by
piece, and not for ever."""

import asyncio

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from manyhands.shared.budget import ByteBudget
from manyhands.shared.errors import OverBudget
from manyhands.shared.http.limits import PIECE_BYTES, TAKES_WITHIN_S


class HeldAnswer(Response):
    """Sent while the budget has room for it; `otherwise` is what is answered when it has none."""

    def __init__(
        self, body: bytes, budget: ByteBudget, otherwise: Response, media_type: str
    ) -> None:
        super().__init__(body, media_type=media_type)
        self._budget = budget
        self._otherwise = otherwise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        size = len(self.body)
        try:
            self._budget.take(size)
        except OverBudget:
            await self._otherwise(scope, receive, send)
            return
        try:
            async with asyncio.timeout(TAKES_WITHIN_S):
                await self._send(send)
        except TimeoutError:
            pass  # the server sees that it is not whole, and hangs up
        finally:
            self._budget.give_back(size)

    async def _send(self, send: Send) -> None:
        headers = self.raw_headers
        await send({"type": "http.response.start", "status": self.status_code, "headers": headers})
        whole = memoryview(self.body)
        for start in range(0, max(len(whole), 1), PIECE_BYTES):
            piece = bytes(whole[start : start + PIECE_BYTES])
            has_more = start + PIECE_BYTES < len(whole)
            await send({"type": "http.response.body", "body": piece, "more_body": has_more})
