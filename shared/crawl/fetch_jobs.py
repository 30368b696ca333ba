"""`fetch` jobs as URLs of no crawl: how one is known, what is kept of it beside its URL, which jobs
are made of it, and how often it is tried. Pure.

A job is known by its identity, not by its URL: a job that is delivered twice is fetched once, and
two jobs of one URL are two, unless both say `unique_for_s` in their `custom`. `hop` counts the
redirects that led from the job's own URL to this one: the target of a redirect is a `fetch` job of
the same identity for whoever owns the shard of the target. `turn` counts how often the job was
requeued from the dead set. `custom.mh` carries both.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any, NamedTuple, Self

import orjson

from manyhands.shared.crawl.states import UrlState
from manyhands.shared.errors import InvalidJob
from manyhands.shared.jobs import (
    DEFAULT_RESERVE_FOR_S,
    DEFAULT_RETRY,
    MAX_RESERVE_FOR_S,
    MIN_JID_LENGTH,
    Job,
    check_numbers,
    new_jid,
    utc_now,
)
from manyhands.shared.jobtypes import FETCH
from manyhands.shared.urls import parse_url, shard_queue

# The fields of `custom.mh`.
HOP, TURN, FIRST_URL, CAUSE, VIA = "hop", "turn", "url", "cause", "via"
# Beside `mh`, of a job that need not be fetched when one of its URL was in so many seconds.
UNIQUE_FOR_S = "unique_for_s"
LEAST_UNIQUE_FOR_S = 1
MOST_UNIQUE_FOR_S = 10 * 365 * 86_400
# What a worker says when it fails a job for good: a dead job with it was told to its producer.
DEAD = "Dead"
# As that of every URL in a store.
KEY_BYTES = 16
# Characters of a value that is refused.
MOST_SHOWN = 50


class FetchJob(NamedTuple):
    """`url` is what its producer wrote, and `redirects` are the URLs that led to the present one;
    the rest is as the producer sent it."""

    id: str
    url: str
    hop: int
    turn: int
    retry: int
    reserve_for: int
    created_at: str
    custom: dict[str, Any]
    redirects: Sequence[str] = ()

    @classmethod
    def of(cls, fields: Mapping[str, Any], job_id: str, url: str) -> Self:
        """From a job as the server sent it. Raises InvalidJob if no other job could carry what its
        producer put into `custom`, or if `unique_for_s` there is no such time."""
        custom = fields.get("custom")
        custom = dict(custom) if isinstance(custom, dict) else {}
        ours = custom.pop("mh", None)
        ours = ours if isinstance(ours, dict) else {}
        if custom:
            check_numbers(custom, f"custom of {job_id}", None)
            _check_unique_for(custom, job_id)
        first = ours.get(FIRST_URL)
        retry, reserve_for = fields.get("retry"), fields.get("reserve_for")
        return cls(
            id=job_id,
            url=first if isinstance(first, str) else url,
            hop=_count(ours.get(HOP)),
            turn=_count(ours.get(TURN)),
            retry=max(retry, -1) if isinstance(retry, int) else DEFAULT_RETRY,
            reserve_for=min(max(reserve_for, 1), MAX_RESERVE_FOR_S)
            if isinstance(reserve_for, int)
            else DEFAULT_RESERVE_FOR_S,
            created_at=str(fields.get("created_at", "")),
            custom=custom,
            redirects=_urls(ours.get(VIA)),
        )

    @classmethod
    def of_text(cls, text: str) -> Self:
        return cls(*orjson.loads(text))

    def to_text(self) -> str:
        # Most have none.
        redirects = [list(self.redirects)] if self.redirects else []
        return orjson.dumps([*self[:-1], *redirects]).decode()

    @property
    def key(self) -> bytes:
        return key_of(self.id, self.turn, self.hop)

    @property
    def most_attempts(self) -> int:
        """As a server counts: `retry` is how often it is tried again; -1: it is dead at once."""
        return max(self.retry, 0) + 1

    @property
    def unique_for_s(self) -> float:
        """0: fetched whatever others there are, and so is the target of a redirect."""
        seconds: float = self.custom.get(UNIQUE_FOR_S, 0) if self.hop == 0 else 0
        return seconds

    @property
    def unique_url_key(self) -> str | None:
        """Of the URL that it was made for; None: it is not unique."""
        return url_key(parse_url(self.url).text) if UNIQUE_FOR_S in self.custom else None

    @property
    def is_told_of_death(self) -> bool:
        """A server discards one that has no retries, and so do we."""
        return self.retry != 0

    def redirected_to(self, url: str, shards: int) -> Job:
        via = {VIA: list(self.redirects)} if self.redirects else {}
        return self._job(url, shards, f"{self.turn}-{self.hop + 1}", {HOP: self.hop + 1} | via)

    def failed_by(self, cause: str, shards: int) -> Job:
        """Whoever gets it fails it with this cause and kills it. Requeued from the dead set, it is
        fetched again."""
        return self._job(self.url, shards, f"dead{self.turn}", {TURN: self.turn + 1, CAUSE: cause})

    def _job(self, url: str, shards: int, suffix: str, more: dict[str, Any]) -> Job:
        """Its jid follows from its identity, so that a repeat is known again."""
        jid = f"{self.id}.{suffix}"
        ours = {"id": self.id, "deliveries": 0, TURN: self.turn, FIRST_URL: self.url} | more
        return Job(
            jobtype=FETCH,
            args=[url],
            queue=shard_queue(url, shards),
            jid=jid if len(jid) >= MIN_JID_LENGTH else new_jid(),
            retry=self.retry,
            reserve_for=self.reserve_for,
            created_at=_moment(self.created_at),
            custom=self.custom | {"mh": ours},
        )


def cause_to_tell(fields: Mapping[str, Any]) -> str | None:
    """Of a job that `failed_by` made and that is not in the dead set yet. One that was requeued
    from there has failed with what we said."""
    custom = fields.get("custom")
    ours = custom.get("mh") if isinstance(custom, dict) else None
    cause = ours.get(CAUSE) if isinstance(ours, dict) else None
    failure = fields.get("failure")
    was_told = isinstance(failure, dict) and failure.get("errtype") == DEAD
    return None if was_told or not isinstance(cause, str) else cause


def cause_of(state: UrlState, reason: str) -> str:
    """Why there is no page, for people."""
    if state is UrlState.DISALLOWED:
        return f"not allowed by {reason}"
    return reason or state.name.lower()


def key_of(job_id: str, turn: int, hop: int) -> bytes:
    return blake2b(f"{turn}\n{hop}\n{job_id}".encode(), digest_size=KEY_BYTES).digest()


def keys_of(job_id: str, places: Sequence[tuple[int, int]]) -> list[bytes]:
    """By turn and hop."""
    return [key_of(job_id, turn, hop) for turn, hop in places]


def url_key(url: str) -> str:
    """What jobs of one canonical URL have in common."""
    return blake2b(url.encode(), digest_size=KEY_BYTES).hexdigest()


def back_off_s(attempts: int, draw: float) -> float:
    """The wait after so many attempts, as a Faktory waits; `draw` is from 0 to 1."""
    count = attempts - 1
    return count**4 + 15.0 + draw * 30.0 * (count + 1)


def _check_unique_for(custom: Mapping[str, Any], job_id: str) -> None:
    if UNIQUE_FOR_S not in custom:
        return
    given = custom[UNIQUE_FOR_S]
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if not is_number or not LEAST_UNIQUE_FOR_S <= given <= MOST_UNIQUE_FOR_S:
        raise InvalidJob(
            f"custom.{UNIQUE_FOR_S} of {job_id} must be {LEAST_UNIQUE_FOR_S} to"
            f" {MOST_UNIQUE_FOR_S} s, not {str(given)[:MOST_SHOWN]!r}"
        )
    if not job_id.isprintable():
        raise InvalidJob(
            f"a job with custom.{UNIQUE_FOR_S} must have a printable id,"
            f" not {job_id[:MOST_SHOWN]!r}"
        )


def _count(value: object) -> int:
    return value if isinstance(value, int) and value >= 0 else 0


def _urls(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _moment(text: str) -> datetime:
    """Other producers may write what they like."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return utc_now()
    return moment if moment.tzinfo is not None else utc_now()
