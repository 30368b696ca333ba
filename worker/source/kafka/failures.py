"""Where a record goes that did not succeed, and what is written on it. Pure.

It leaves its partition, so that the offsets behind it can be committed: to a topic of the group
in which it waits, or to the one for what is given up. It keeps key, value and headers, and gets
headers of ours that say where it came from, how often it failed, how it failed first and last, and
when it may run again. Its consumer takes it from there as if it had come from its own topic.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from manyhands.shared.jobs import rfc3339
from manyhands.worker.jobs.message import Message
from manyhands.worker.jobs.outcomes import Dead, Defer, Failed, Move, Retry
from manyhands.worker.source.kafka.topics import SideTopics

PREFIX = "mh-"
ORIGIN = "mh-origin"
FAILURES = "mh-failures"
FIRST_ERROR, FIRST_FAILED_AT = "mh-first-error", "mh-first-failed-at"
LAST_ERROR, FAILED_AT = "mh-error", "mh-failed-at"
DUE = "mh-due"
# Of an error's text; a header may not make a record too large that was not.
MOST_ERROR_CHARS = 1000


@dataclass(slots=True, frozen=True)
class Outgoing:
    """A record to be written."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(slots=True, frozen=True)
class History:
    """What the headers say of a record. `origin` is its first topic, partition and offset."""

    origin: str
    failures: int = 0
    first_error: str = ""
    first_failed_at: str = ""
    last_error: str = ""
    failed_at: str = ""
    due: datetime | None = None

    @property
    def topic(self) -> str:
        return self.origin.partition("/")[0]


def history_of(message: Message) -> History:
    """Headers of others that look like ours, and cannot be read, say nothing."""
    texts = {
        name: value.decode(errors="replace")
        for name, value in message.headers
        if name.startswith(PREFIX) and value is not None
    }
    failures = texts.get(FAILURES, "")
    return History(
        origin=texts.get(ORIGIN) or f"{message.topic}/{message.partition}/{message.offset}",
        failures=int(failures) if failures.isascii() and failures.isdecimal() else 0,
        first_error=texts.get(FIRST_ERROR, ""),
        first_failed_at=texts.get(FIRST_FAILED_AT, ""),
        last_error=texts.get(LAST_ERROR, ""),
        failed_at=texts.get(FAILED_AT, ""),
        due=_moment(texts.get(DUE, "")),
    )


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


@dataclass(slots=True, frozen=True)
class Failing:
    """One record that did not succeed: its parts, its history, and how many retries it has."""

    message: Message
    value: bytes | None
    history: History
    retries: int

    def again(
        self, outcome: Failed | Retry | Defer, side: SideTopics, now: datetime
    ) -> tuple[Outgoing, bool]:
        """Where it goes now; True when it is given up."""
        if isinstance(outcome, Defer):
            return self.waiting(self.history, outcome.until, side, now), False
        if isinstance(outcome, Retry):
            told, wait_s = _failed(self.history, f"Retry: {outcome.reason}", now), outcome.after_s
        else:
            told = _failed(self.history, f"{outcome.error_type}: {outcome.message}", now)
            wait_s = side.after_failures(told.failures)
        if told.failures > self.retries:
            return self._written(side.dead, told), True
        return self.waiting(told, now + timedelta(seconds=wait_s), side, now), False

    def dead(self, outcome: Dead | Failed, side: SideTopics, now: datetime) -> Outgoing:
        what = outcome if isinstance(outcome, Failed) else Failed.from_exception(outcome)
        told = _failed(self.history, f"{what.error_type}: {what.message}", now)
        return self._written(side.dead, told)

    def moved(self, outcome: Move) -> Outgoing:
        """As it is, and of that topic from now on."""
        headers = _foreign(self.message.headers)
        return Outgoing(outcome.queue, self.message.key, self.value, headers)

    def waiting(
        self, history: History, until: datetime, side: SideTopics, now: datetime
    ) -> Outgoing:
        """In the topic whose delay is nearest; what is left then is waited for in the next."""
        delay = side.not_longer_than((until - now).total_seconds())
        return self._written(side.retry(delay), replace(history, due=until))

    def home(self) -> Outgoing:
        """Back to the topic that it came from, which others consume; it has waited for its time."""
        return self._written(self.history.topic, replace(self.history, due=None))

    def _written(self, topic: str, history: History) -> Outgoing:
        headers = (*_foreign(self.message.headers), *_headers(history))
        return Outgoing(topic, self.message.key, self.value, headers)


def _failed(history: History, error: str, now: datetime) -> History:
    error = error[:MOST_ERROR_CHARS]
    return replace(
        history,
        failures=history.failures + 1,
        first_error=history.first_error or error,
        first_failed_at=history.first_failed_at or rfc3339(now),
        last_error=error,
        failed_at=rfc3339(now),
        due=None,
    )


def _headers(history: History) -> Iterable[tuple[str, bytes]]:
    texts = {
        ORIGIN: history.origin,
        FAILURES: str(history.failures) if history.failures else "",
        FIRST_ERROR: history.first_error,
        FIRST_FAILED_AT: history.first_failed_at,
        LAST_ERROR: history.last_error,
        FAILED_AT: history.failed_at,
        DUE: rfc3339(history.due) if history.due else "",
    }
    return ((name, text.encode(errors="replace")) for name, text in texts.items() if text)


def _foreign(
    headers: tuple[tuple[str, bytes | None], ...],
) -> tuple[tuple[str, bytes | None], ...]:
    return tuple(header for header in headers if not header[0].startswith(PREFIX))
