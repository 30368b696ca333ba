"""One connection to a server: sends a request, feeds what comes back to its exchange, waits while
the process holds too many bytes, and gives up when a time-out is over."""

import asyncio
import socket
import ssl
import struct
import time
from collections.abc import Callable
from typing import cast

from manyhands.shared.settings import FetchSettings
from manyhands.worker.net.byte_budget import ByteBudget, Hold
from manyhands.worker.net.http1 import Exchange
from manyhands.worker.net.reasons import of_os_error, time_out

# To linger for no time: the kernel throws away what it has not sent.
DISCARDS_UNSENT = struct.pack("ii", 1, 0)
FIRST_BYTE, SILENCE, WHOLE = "first byte", "silence", "whole document"


class Http1Connection(asyncio.Protocol):
    """State: the exchange under way with its share of the budget, when its bytes came, since when
    it waits for room, and the timer.

    One timer serves all exchanges. It is set again only if a time-out could end before it fires;
    when it fires, it checks whether it is really time, which happens once in a thousand answers.
    """

    def __init__(
        self,
        limits: FetchSettings,
        budget: ByteBudget,
        loop: asyncio.AbstractEventLoop,
        *,
        keeps_unwanted: bool = False,
    ) -> None:
        self._limits = limits
        self._budget = budget
        self._loop = loop
        self._keeps_unwanted = keeps_unwanted
        self._transport: asyncio.Transport | None = None
        self._exchange: Exchange | None = None
        self._hold: Hold | None = None
        self._ended: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        # By the loop's clock.
        self._ends_at = 0.0
        self._heard_at = 0.0
        # While reading is paused.
        self._paused_at: float | None = None
        # When the head was there, by the precise clock; 0 before.
        self.head_at = 0.0
        self.address = ""
        # Whether the server, or the network, closed it during an exchange.
        self.was_lost = False
        # Outlives the transport: it has the server's TLS session.
        self.tls: ssl.SSLObject | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def close(self) -> None:
        """At once, without waiting for the server. A request to which nothing came back is not sent
        any more: a host that was cut off would send it when the network is back, while another
        host fetches from there."""
        self._forget_timer()
        if self._transport is not None:
            if self._exchange is not None and not self._exchange.has_begun:
                of_transport = self._transport.get_extra_info("socket")
                of_transport.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, DISCARDS_UNSENT)
            self._transport.abort()
            self._transport = None

    async def send(
        self,
        request: bytes,
        wants_body: Callable[[int, str], bool],
        max_bytes: int,
        ends_at: float,
        hold: Hold,
    ) -> Exchange:
        """Send a request and wait for the end of its answer, at most until `ends_at` (the loop's
        clock, not counting time paused for room). `hold` tracks the size of the body. Cancelling
        closes the connection."""
        self._hold = hold
        self._ended = ended = self._loop.create_future()
        self._exchange = exchange = Exchange(
            wants_body, max_bytes, self._answer_is_done, keeps_unwanted=self._keeps_unwanted
        )
        self._heard_at = self._loop.time()
        self._ends_at = ends_at
        self.head_at = 0.0
        self._watch()
        if self._transport is None:
            self.was_lost = True
            exchange.ended()
        else:
            self._transport.write(request)
        try:
            await ended
            if not exchange.is_reusable:
                self.close()
        except BaseException:
            self.close()
            raise
        finally:
            self._exchange = self._hold = None
            hold.is_read()
            self._budget.ended(self)
            self.go_on()
        return exchange

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if peer else ""
        self.tls = transport.get_extra_info("ssl_object")

    def data_received(self, data: bytes) -> None:
        exchange, hold = self._exchange, self._hold
        if exchange is None or hold is None:
            # Unasked: what follows would be taken for the answer to the next request.
            self.close()
            return
        self._heard_at = self._loop.time()
        exchange.feed(data)
        hold.resize(exchange.body.size)
        if self._budget.is_full and not exchange.is_done:
            self._wait_for_room()
        if not self.head_at and exchange.has_head:
            self.head_at = time.perf_counter()
            if not exchange.is_done:
                # Another time-out counts from here, and may be shorter.
                self._watch()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._forget_timer()
        if self._exchange is None:
            return
        self.was_lost = True
        self._exchange.is_reusable = False
        if isinstance(error, OSError):
            self._exchange.fail(of_os_error(error))
        else:
            self._exchange.ended()

    def _wait_for_room(self) -> None:
        if (
            self._paused_at is None
            and self._transport is not None
            and not self._budget.may_go_on(self)
        ):
            self._paused_at = self._loop.time()
            self._transport.pause_reading()

    # Called by the budget.

    def go_on(self) -> None:
        if self._paused_at is None:
            return
        now = self._loop.time()
        self._ends_at += now - self._paused_at
        self._heard_at = now
        self._paused_at = None
        if self._transport is not None:
            self._transport.resume_reading()

    # Inside

    def _answer_is_done(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def _watch(self) -> None:
        due_at = self._due()[0]
        if self._paused_at is not None:
            due_at = self._loop.time() + self._limits.read_timeout_s
        if self._timer is None or due_at < self._timer_at:
            self._forget_timer()
            self._timer = self._loop.call_at(due_at, self._look)
            self._timer_at = due_at

    def _look(self) -> None:
        self._timer = None
        if self._exchange is None:
            return
        due_at, stage, wait_s = self._due()
        if self._paused_at is None and self._loop.time() >= due_at:
            self._exchange.fail(time_out(stage, wait_s))
        else:
            self._watch()

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> tuple[float, str, float]:
        """When the next time-out ends, which one it is, and how long it is."""
        limits = self._limits
        stage, wait_s = FIRST_BYTE, limits.first_byte_timeout_s
        if self.head_at:
            stage, wait_s = SILENCE, limits.read_timeout_s
        due_at = self._heard_at + wait_s
        if due_at >= self._ends_at:
            return self._ends_at, WHOLE, limits.timeout_s
        return due_at, stage, wait_s
