"""The supervisor's own connection to the server: asks for the lengths of queues, and reports for
children that no longer can. Never in the way: what fails is left out until it works again."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial

from manyhands.shared.crawl.claim import is_fetch_queue, marked_by
from manyhands.shared.errors import ConnectFailed, ConnectionLost, FaktoryError
from manyhands.shared.faktory.client import MAX_BULK_JOBS, FaktoryVerbs
from manyhands.shared.faktory.dialer import Dialer
from manyhands.shared.faktory.handshake import ServerAddress, parse_url
from manyhands.shared.faktory.lanes import CommandLanes
from manyhands.shared.jobs import Job
from manyhands.shared.logs import get_logger
from manyhands.shared.settings import FaktorySettings
from manyhands.shared.tasks import Tasks
from manyhands.worker.service.held_jobs import HeldJob
from manyhands.worker.source.results import raise_if_refused, repeat
from manyhands.worker.supervision.left_behind import LeftBehind, judge

# Later than this the server has noticed by itself, or the ids are gone.
QUIET_WITHIN_S = 2.0
# No reservation is shorter than a minute.
PUT_BACK_WITHIN_S = 30.0
# A FETCH that finds nothing takes two seconds, even if nobody waits for its answer.
FETCHES_END_S = 2.5
STOP_WITHIN_S = FETCHES_END_S + 2.0


class ServerView:
    """State: the connection; what the server said last of the queues, and which stores have marked
    it as theirs."""

    def __init__(self, settings: FaktorySettings) -> None:
        self._dialer = Dialer(parse_url(settings.url), settings.ca_file)
        self._lanes = CommandLanes(self._dialer, 1)
        self._verbs = FaktoryVerbs(self._lanes)
        self.sizes: dict[str, int] = {}
        self.lags_s: dict[str, float] = {}
        self.marks: frozenset[str] = frozenset()
        # Those that have jobs, of whatever number of shards.
        self.fetch_queues: list[str] = []
        self._putting_back = Tasks("server-view")
        self._log = get_logger("supervisor")

    @property
    def address(self) -> ServerAddress:
        return self._dialer.address

    async def run(self) -> None:
        """Keep the connection up until cancelled."""
        try:
            await self._lanes.lanes[0].run()
        except ConnectFailed as error:
            # The children, which need the server more, report it and end the service.
            self._log.debug("the supervisor has no connection to the server", reason=str(error))

    def close(self) -> None:
        """Before `run` is cancelled: a connection that ends any other way is logged as lost."""
        self._lanes.close()

    async def quiet(self, wids: Sequence[str]) -> None:
        """At a real Faktory the FETCHes of a dead process live on and take jobs that reach nobody:
        quiet its ids. Our broker drops them by itself."""
        if not wids or not self._verbs.is_up or self._verbs.is_our_broker:
            return
        try:
            async with asyncio.timeout(QUIET_WITHIN_S):
                await asyncio.gather(
                    *(self._verbs.beat(wid, state="quiet") for wid in wids),
                    # "unknown worker": the server has forgotten it already.
                    return_exceptions=True,
                )
        except TimeoutError:
            self._log.warning("could not silence the worker ids of a dead child")

    def put_back_soon(self, held: Sequence[HeldJob]) -> None:
        """See worker/supervision/left_behind.py."""
        if held:
            self._putting_back.spawn(self._put_back(judge(held)), name="put-back")

    async def all_put_back(self) -> None:
        if running := self._putting_back.running:
            await asyncio.wait(running, timeout=STOP_WITHIN_S)

    async def _put_back(self, left: Sequence[LeftBehind]) -> None:
        try:
            async with asyncio.timeout(PUT_BACK_WITHIN_S):
                if not self._verbs.is_our_broker:
                    # Sooner, FETCHes of the dead child could take them.
                    await asyncio.sleep(FETCHES_END_S)
                for start in range(0, len(left), MAX_BULK_JOBS):
                    await self._put_back_some(left[start : start + MAX_BULK_JOBS])
        except (TimeoutError, FaktoryError) as error:
            self._log.error(
                "jobs without retries of a child that died could not be put back: the server "
                "discards them when their reservations end",
                jobs=len(left),
                reason=str(error) or "no answer in time",
            )
        else:
            self._log.warning(
                "jobs without retries of a child that died",
                put_back=sum(one.copy is not None for one in left),
                failed=sum(one.copy is None for one in left),
            )

    async def _put_back_some(self, left: Sequence[LeftBehind]) -> None:
        """In this order: a crash between the two repeats jobs and loses none."""
        copies = [one.copy for one in left if one.copy is not None]
        raise_if_refused(await repeat(partial(self._verbs.push_encoded, copies)))
        await asyncio.gather(*(repeat(partial(self._settle, one)) for one in left))

    async def _settle(self, one: LeftBehind) -> None:
        if one.copy is not None:
            await self._verbs.ack(one.job.jid)
        else:
            await self._fail(one)

    async def _fail(self, one: LeftBehind) -> None:
        why = f"{one.deaths} processes ended while they ran it"
        self._log.error("job given up", jobtype=one.job.jobtype, jid=one.job.jid, reason=why)
        await self._verbs.fail(one.job.jid, "WorkerLost", why)

    async def look_at_sizes(self, names: Iterable[str]) -> bool:
        """Ask how many jobs wait; False when there is no answer."""
        if not self._verbs.is_up:
            return False
        try:
            answer = await self._verbs.info()
            told = answer["faktory"]["queues"]
            self.sizes = {name: int(told.get(name, 0)) for name in names}
            self.marks = marked_by(told)
            self.fetch_queues = sorted(n for n, size in told.items() if size and is_fetch_queue(n))
        except (FaktoryError, LookupError, TypeError, ValueError, AttributeError) as error:
            self._log.debug("no answer to INFO", reason=repr(error))
            return False
        return True

    async def wait_up(self, timeout_s: float) -> None:
        """Return when there is a connection, or none so far."""
        with suppress(ConnectionLost):
            await self._lanes.wait_up_within(timeout_s)

    async def push(self, job: Job) -> None:
        """Raises FaktoryError."""
        await self._verbs.push(job)

    async def remove_queue(self, name: str) -> None:
        """Raises FaktoryError."""
        await self._verbs.queue_remove([name])

    async def look_at_lags(self) -> None:
        """Ask how long the oldest job of each queue has waited."""
        waiting = [name for name, size in self.sizes.items() if size]
        lags_s = dict.fromkeys(self.sizes, 0.0)
        try:
            self.lags_s = lags_s | (await self._verbs.queue_latency(waiting) if waiting else {})
        except FaktoryError as error:
            self._log.debug("no answer to QUEUE LATENCY", reason=str(error))
