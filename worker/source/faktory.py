"""Jobs from a Faktory server (or our broker): many slots over few sockets.

Everything runs in the loop's thread; `_pump` is scheduled at most once per loop turn and sends all
results and FETCHes that the scheduler and the stages' windows allow.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import orjson

from manyhands.shared.errors import FaktoryError, ProtocolError
from manyhands.shared.faktory import codec
from manyhands.shared.faktory.client import FaktoryVerbs
from manyhands.shared.faktory.codec import Reply
from manyhands.shared.faktory.dialer import Dialer
from manyhands.shared.faktory.lanes import Command, CommandLanes
from manyhands.shared.jobs import Job
from manyhands.shared.logs import get_logger
from manyhands.shared.sizing import GATHER_S
from manyhands.worker.jobs.delivery import Delivery, parse_delivery
from manyhands.worker.jobs.outcomes import Failed, Outcome, PutBack
from manyhands.worker.service.link import Pushed
from manyhands.worker.service.stages import Stage
from manyhands.worker.source import scheduler
from manyhands.worker.source.process_lanes import ProcessLanes
from manyhands.worker.source.queue_order import QueueOrder
from manyhands.worker.source.results import Results
from manyhands.worker.source.stage_lanes import StageLanes

# When a burst of FETCHes was cut short, the next follows after this.
PACE_S = 0.001
# Payloads in hand above this stop reading from the fetch lanes until half of it is gone.
MAX_HELD_BYTES = 256 * 1024 * 1024


class FaktorySource:
    """A `Source`: fills the slots through the lanes, and reports results. State: the jobs in hand
    by jid and their bytes, what was pushed where, and the drain if one has begun."""

    def __init__(
        self,
        dialer: Dialer,
        stages: Mapping[Stage, QueueOrder],
        *,
        slots: int,
        idle_fetches: int,
        connections: int,
        on_lanes_changed: Callable[[], None] = lambda: None,
    ) -> None:
        # Kept: asking for the running loop costs a system call each time (CPython 3.11).
        self._loop = asyncio.get_running_loop()
        self.slots = slots
        self.stages = [
            StageLanes(stage, order, self, slots=slots, idle_fetches=idle_fetches)
            for stage, order in stages.items()
        ]
        self.pushed = {stage.feeds: Pushed() for stage in stages if stage.feeds}
        self.held_bytes = 0
        self._commands = CommandLanes(dialer, 1)
        self.results = Results(self._commands, FaktoryVerbs(self._commands), self.fetches_changed)
        self.lanes = ProcessLanes(
            dialer,
            self._commands,
            self.stages,
            connections=connections,
            slots=slots,
            on_tick=self.fetches_changed,
        )
        self._on_lanes_changed = on_lanes_changed
        self._deliver: Callable[[Delivery], None] = _refuse_delivery
        self._pump_is_scheduled = False
        # Their jids; what a result was sent for is known to `results`.
        self._in_hand: set[str] = set()
        self._drain: asyncio.Task[None] | None = None
        self._log = get_logger("source")

    # Source

    async def run(self, deliver: Callable[[Delivery], None]) -> None:
        self._deliver = deliver
        await self.lanes.run()

    def slot_free(self, delivery: Delivery) -> None:
        if delivery.has_slot:
            delivery.has_slot = False
            self.stages[delivery.stage].window.job_ended()
            self.fetches_changed()

    def job_ended(self, delivery: Delivery) -> None:
        self.held_bytes -= len(delivery.payload)
        self._in_hand.discard(delivery.jid)
        if not self.lanes.is_reading and self.held_bytes < MAX_HELD_BYTES // 2:
            self.lanes.set_reading(True)
        self.slot_free(delivery)

    def settle(self, delivery: Delivery, outcome: Outcome) -> Coroutine[Any, Any, None]:
        # No coroutine around another one: nearly all jobs are done, and nothing waits then.
        if isinstance(outcome, PutBack) and self._drain is not None:
            return self._put_back_when_quiet(delivery, outcome)
        return self.results.settle(delivery, outcome)

    async def put_back(self, deliveries: Sequence[Delivery]) -> None:
        await self.results.put_back(deliveries)

    async def push(self, jobs: Sequence[Job]) -> None:
        await self.results.push(jobs)
        for job in jobs:
            if (pushed := self.pushed.get(job.queue)) is not None:
                size = len(orjson.dumps(job.args))
                self.pushed[job.queue] = Pushed(pushed.jobs + 1, pushed.bytes + size)

    async def quiet(self) -> None:
        if self._drain is None:
            self._drain = asyncio.create_task(self.lanes.drain(), name="drain")
        await asyncio.shield(self._drain)

    async def flushed(self) -> None:
        await self.results.flushed()

    def close(self) -> None:
        self.lanes.close()

    def told_backlog(self, queues: Mapping[str, int], paces: Mapping[str, float]) -> None:
        """From the supervisor: how many jobs wait in each queue, and each stage's pace."""
        for stage in self.stages:
            stage.backlog = sum(queues.get(name, 0) for name in stage.queues)
            stage.pace = paces.get(stage.stage.name, 1.0)
        self.fetches_changed()

    # StageOwner

    def job_answered(self, stage: StageLanes, payload: bytes, reserved_after: float) -> None:
        try:
            delivery = parse_delivery(payload, reserved_after)
        except ProtocolError as error:
            self._refuse_unreadable(stage, payload, error)
            return
        if stage is not self.stages[0]:
            delivery.stage = self.stages.index(stage)
        self.held_bytes += len(payload)
        self._in_hand.add(delivery.jid)
        if self.held_bytes > MAX_HELD_BYTES and self.lanes.is_reading:
            self.lanes.set_reading(False)
        self._deliver(delivery)

    def fetches_changed(self) -> None:
        if not self._pump_is_scheduled:
            is_busy = any(stage.window.is_busy for stage in self.stages)
            self._schedule_pump(self._gather_s() if is_busy else 0.0)

    def lanes_changed(self, stage: StageLanes) -> None:
        self.lanes.changed(stage)
        self._on_lanes_changed()
        self.fetches_changed()

    def lane_broke(self, wid: str) -> None:
        if self.lanes.is_closed:
            return
        if self.lanes.is_broker:
            # Answers may have been lost: jobs that we do not have go back.
            line = codec.held(wid, {*self._in_hand, *self.results.unanswered_jids()})
        else:
            # Its FETCHes live on at the server; silence the id before they take jobs.
            line = codec.beat(wid, state="quiet")
        self._commands.submit(Command(line, _ignore_reply, is_kept=True))

    # Inside

    async def _put_back_when_quiet(self, delivery: Delivery, outcome: PutBack) -> None:
        await self.quiet()
        await self.results.settle(delivery, outcome)

    def _gather_s(self) -> float:
        if not self.lanes.is_broker:
            return GATHER_S
        # Our broker takes many lines at a time anyway; waiting longer than it needs to answer
        # would leave it idle.
        return min(GATHER_S, *(stage.window.round_trip_s for stage in self.stages))

    def _refuse_unreadable(self, stage: StageLanes, payload: bytes, error: ProtocolError) -> None:
        stage.window.job_ended()
        self._log.error("a job cannot be read", reason=str(error))
        try:
            jid = orjson.loads(payload)["jid"]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return  # without a jid there is nothing to report on: its reservation will end
        if isinstance(jid, str):
            self.results.fail(jid, Failed("UnreadableJob", str(error)))

    def _schedule_pump(self, after_s: float) -> None:
        self._pump_is_scheduled = True
        if after_s:
            self._loop.call_later(after_s, self._pump)
        else:
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        """Send the results and the FETCHes that have come together."""
        self._pump_is_scheduled = False
        now = self._loop.time()
        self.results.send_collected()
        lanes = sum(stage.window.lanes for stage in self.stages)
        if not lanes:
            return
        # Results are reported for all stages together; each window counts its lanes' share.
        unanswered = self.results.unanswered
        views = [stage.view(now, unanswered * stage.window.lanes // lanes) for stage in self.stages]
        for stage, count in zip(self.stages, scheduler.credits(self.slots, views), strict=True):
            if count:
                stage.fetch(count, now)
        if any(stage.window.is_cut_short for stage in self.stages):
            self._schedule_pump(max(self._gather_s(), PACE_S))


def _refuse_delivery(_delivery: Delivery) -> None:
    raise AssertionError("a job arrived before run()")


def _ignore_reply(_command: Command, _reply: Reply | FaktoryError) -> None:
    """`unknown worker` means that the server has forgotten it already."""
