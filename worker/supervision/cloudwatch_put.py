"""Puts the stages' metrics to CloudWatch every 15 seconds, while its lines are for CloudWatch Logs.

What it asks of the network happens in a thread, one request at a time, so that the supervisor never
waits for it. What could not be sent waits, up to a number; what is dropped is counted and said.
"""

import asyncio
import contextlib
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime

from manyhands.shared.errors import ConfigError, ManyhandsError
from manyhands.shared.faktory.backoff import Backoff
from manyhands.shared.logs import get_logger
from manyhands.worker.aws.asking import ask
from manyhands.worker.aws.credentials import Credentials, service_url
from manyhands.worker.aws.signing import signed
from manyhands.worker.service.families import family, filled, single
from manyhands.worker.service.link import Family, Sample
from manyhands.worker.supervision.metric_data import (
    CONTENT_TYPE,
    MOST_IN_REQUEST,
    Point,
    Refusal,
    points_of,
    refusal_of,
    request_body,
)
from manyhands.worker.supervision.stage_summary import summarize_stages
from manyhands.worker.supervision.status import ServiceStatus

EVERY_S = 15.0
TIMEOUT_S = 10.0
# An hour of a service with twenty stages.
MOST_WAITING = 10_000
LONGEST_DELAY_S = 60.0
SENT, DROPPED, REFUSED = "sent", "dropped", "refused"

POINTS = family(
    "cloudwatch_points_total", "counter", "Points for CloudWatch, by what came of them", "outcome"
)
WAITING = family("cloudwatch_points_waiting", "gauge", "Points that CloudWatch does not have yet")
FAMILIES = (POINTS, WAITING)


class CloudWatch:
    """Where it is, and with whose keys. Called in a thread."""

    def __init__(self, env: Mapping[str, str]) -> None:
        """Raises ConfigError."""
        self._region = env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or ""
        if not self._region:
            raise ConfigError("WORKER_CLOUDWATCH_PUT=true: AWS_REGION must say which region")
        self._credentials = Credentials(env, self._region)
        self._url = env.get("AWS_ENDPOINT_URL_CLOUDWATCH", service_url("monitoring", self._region))

    def put(self, points: list[Point]) -> Refusal | None:
        """Raises NoCredentials, NoAnswer."""
        now = datetime.now(UTC)
        body = request_body(points)
        headers = signed(
            "POST",
            self._url,
            {"Content-Type": CONTENT_TYPE},
            body,
            keys=self._credentials.keys(now),
            region=self._region,
            service="monitoring",
            at=now,
        )
        answer = ask("POST", self._url, headers, body, timeout_s=TIMEOUT_S)
        refusal = refusal_of(answer.status, answer.body)
        if refusal is not None and refusal.is_about_keys:
            self._credentials.forget()
        return refusal


class Putting:
    """State: what waits, the oldest first, what became of the rest, and the last trouble that was
    said."""

    def __init__(
        self,
        read_status: Callable[[], ServiceStatus],
        put: Callable[[list[Point]], Refusal | None],
    ) -> None:
        self._read_status = read_status
        self._put = put
        self._waiting: deque[Point] = deque()
        self._has_some = asyncio.Event()
        self._backoff = Backoff(longest_s=LONGEST_DELAY_S)
        self._trouble = ""
        self._drops = 0
        self._counts = Counter({SENT: 0, DROPPED: 0, REFUSED: 0})
        self._log = get_logger("cloudwatch")

    async def run(self) -> None:
        """Until cancelled. A request under way ends by itself."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._gather())
            tasks.create_task(self._send())

    def families(self) -> Iterable[Family]:
        yield filled(POINTS, [Sample([name], count) for name, count in self._counts.items()])
        yield single(WAITING, len(self._waiting))

    async def _gather(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            self._waiting += points_of(summarize_stages(self._read_status()), time.time())
            beyond = max(0, len(self._waiting) - MOST_WAITING)
            for _ in range(beyond):
                self._waiting.popleft()
            self._drop(beyond)
            if self._waiting:
                self._has_some.set()

    def _drop(self, number: int) -> None:
        if number and not self._drops:
            self._log.error("the oldest points for CloudWatch are dropped: too many wait")
        self._drops += number
        self._counts[DROPPED] += number

    async def _send(self) -> None:
        while True:
            await self._has_some.wait()
            batch = [
                self._waiting.popleft() for _ in range(min(MOST_IN_REQUEST, len(self._waiting)))
            ]
            trouble = await self._try(batch)
            if trouble:
                self._say(trouble)
                # In front of what came meanwhile.
                self._waiting.extendleft(reversed(batch))
                await asyncio.sleep(self._delay_s())
            elif not self._waiting:
                self._has_some.clear()

    async def _try(self, batch: list[Point]) -> str:
        """Why these must be sent again; empty: they are done with."""
        try:
            refusal = await _in_thread(lambda: self._put(batch))
        except ManyhandsError as error:
            return str(error)
        except Exception as error:
            self._log.exception("unhandled exception in a request to CloudWatch")
            return f"{type(error).__name__}: {error}"
        if refusal is None:
            self._counts[SENT] += len(batch)
            self._well_again()
            return ""
        if not refusal.is_for_good:
            return refusal.reason
        self._counts[REFUSED] += len(batch)
        self._say(f"refused for good: {refusal.reason}")
        return ""

    def _delay_s(self) -> float:
        return max(1.0, self._backoff.next_delay_s())

    def _say(self, trouble: str) -> None:
        """Once, as long as it stays the same."""
        if trouble != self._trouble:
            self._trouble = trouble
            self._log.warning(
                "CloudWatch does not take the metrics", reason=trouble, waiting=len(self._waiting)
            )

    def _well_again(self) -> None:
        self._backoff.reset()
        if self._trouble:
            self._log.info("CloudWatch takes the metrics again", dropped=self._drops)
        self._trouble, self._drops = "", 0


def _in_thread(call: Callable[[], Refusal | None]) -> "asyncio.Future[Refusal | None]":
    """In one that nobody waits for at the end: a stop must not last as long as a request."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Refusal | None] = loop.create_future()

    def answer(refusal: Refusal | None, error: Exception | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(refusal)
        else:
            future.set_exception(error)

    def run() -> None:
        refusal, failed = None, None
        try:
            refusal = call()
        except Exception as error:
            failed = error
        # A loop that is closed has nobody left who waits.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(answer, refusal, failed)

    threading.Thread(target=run, name="cloudwatch", daemon=True).start()
    return future
