"""The job as it travels: its fields, its identity, and what is refused before it is sent.

A job keeps one identity through put-back, Retry and Defer, although each of them needs a fresh
jid: the server keys its reservations by jid, so the ACK of the old delivery would clear the new
one. The identity is `custom.mh = {"id", "deliveries"}`; jobs of other producers have none and
are known by their first jid.

`custom.mh.v` is the version of the payload, left out for the first: a handler that does not know
it yet leaves the job to one that does.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from math import isfinite
from types import MappingProxyType
from typing import Any

import orjson

from manyhands.shared.errors import InvalidJob

DEFAULT_QUEUE = "default"
DEFAULT_RETRY = 25
DEFAULT_RESERVE_FOR_S = 1800
# The server reserves for at least a minute whatever a job asks for, and refuses more than a day.
MIN_RESERVE_FOR_S = 60
MAX_RESERVE_FOR_S = 86_400
MIN_JID_LENGTH = 8
# Go decodes JSON numbers as float64: above this an integer changes on its way through the server.
MAX_SAFE_INTEGER = 2**53
FIRST_VERSION = 1
QUEUE_NAME = re.compile(r"[a-zA-Z0-9._-]+")
MAX_DEPTH = 200


JID_BYTES = 12
JIDS_AT_ONCE = 512


class _Jids:
    """Jids from the system's own randomness, hundreds to a call: one by one it would cost more than
    to encode the job."""

    def __init__(self) -> None:
        self.forget()
        # A forked child must not give out the same ids as its parent.
        os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        self._ready: Iterator[str] = iter(())

    def next(self) -> str:
        jid = next(self._ready, None)
        if jid is None:
            text = os.urandom(JID_BYTES * JIDS_AT_ONCE).hex()
            length = 2 * JID_BYTES
            self._ready = iter([text[at : at + length] for at in range(0, len(text), length)])
            jid = next(self._ready)
        return jid


new_jid = _Jids().next


def rfc3339(moment: datetime) -> str:
    """Faktory's time format; a moment without a zone would be a guess, so it is refused."""
    if moment.tzinfo is None:
        raise InvalidJob(f"{moment!r} has no time zone: use an aware datetime, e.g. in UTC")
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True, kw_only=True)
class Job:
    """A job to push. Every field is sent: what is left out is poisoned by the server's defaults."""

    jobtype: str
    args: list[Any]
    queue: str = DEFAULT_QUEUE
    jid: str = field(default_factory=new_jid)
    retry: int = DEFAULT_RETRY
    reserve_for: int = DEFAULT_RESERVE_FOR_S
    at: datetime | None = None
    created_at: datetime = field(default_factory=utc_now)
    custom: dict[str, Any] = field(default_factory=dict)
    version: int = FIRST_VERSION

    def to_wire(self) -> dict[str, Any]:
        wire: dict[str, Any] = {
            "jid": self.jid,
            "jobtype": self.jobtype,
            "args": self.args,
            "queue": self.queue,
            "reserve_for": self.reserve_for,
            "retry": self.retry,
            "created_at": rfc3339(self.created_at),
            "custom": {"mh": {"id": self.jid, "deliveries": 0}} | self.custom,
        }
        if self.version != FIRST_VERSION:
            wire["custom"]["mh"] = wire["custom"]["mh"] | {"v": self.version}
        if self.at is not None:
            wire["at"] = rfc3339(self.at)
        return wire


def encode_job(job: Job, *, keeps_big_integers: bool = False) -> bytes:
    """Check the job and give its JSON. Raises InvalidJob with the field and the reason."""
    _check_fields(job)
    largest = None if keeps_big_integers else MAX_SAFE_INTEGER
    check_numbers(job.args, f"args of {job.jid}", largest)
    check_numbers(job.custom, f"custom of {job.jid}", largest)
    try:
        # Dataclasses are refused: their numbers would go unchecked.
        return orjson.dumps(job.to_wire(), option=orjson.OPT_PASSTHROUGH_DATACLASS)
    except (orjson.JSONEncodeError, RecursionError) as error:
        raise InvalidJob(f"job {job.jid} ({job.jobtype}) is not JSON: {error}") from error


class JobTemplate:
    """Jobs that differ only in jid, args and times: what they share is checked and encoded once.
    `custom` is what they have there beside their identity."""

    __slots__ = ("_format", "jobtype", "queue")

    def __init__(
        self,
        jobtype: str,
        queue: str,
        retry: int,
        reserve_for: int,
        custom: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        sample = Job(jobtype=jobtype, args=[], queue=queue, retry=retry, reserve_for=reserve_for)
        _check_fields(sample)
        self.jobtype = jobtype
        self.queue = queue
        fixed = _json(
            {"jobtype": jobtype, "queue": queue, "reserve_for": reserve_for, "retry": retry}
        )
        self._format = (
            b'{"jid":"%b",'
            + fixed[1:-1]
            + b',"created_at":"%b","custom":{"mh":{"id":"%b","deliveries":0}'
            + b"".join(b",%b:%b" % (_json(name), _json(custom[name])) for name in custom)
            + b'},"args":%b%b}'
        )

    def encode(self, jid: str, args: bytes, created_at: bytes, at: bytes = b"") -> bytes:
        """The job's JSON, of arguments that are JSON already; the times as RFC 3339."""
        key = jid.encode()
        when = b',"at":"%b"' % at if at else b""
        return self._format % (key, created_at, key, args, when)


def _json(value: object) -> bytes:
    """As a part of a format."""
    return orjson.dumps(value).replace(b"%", b"%%")


def check_batch(jobs: Iterable[Job]) -> None:
    """Refuse a batch that names one jid twice: its partial failures could not be told apart."""
    seen: set[str] = set()
    for job in jobs:
        if job.jid in seen:
            raise InvalidJob(f"jid {job.jid} is twice in one batch")
        seen.add(job.jid)


def check_queue_name(name: str) -> None:
    """The server loses a scheduled job whose queue name is illegal, hours after its +OK."""
    if not QUEUE_NAME.fullmatch(name):
        raise InvalidJob(f"illegal queue name {name!r}: use letters, digits and . _ - only")


def _check_fields(job: Job) -> None:
    if len(job.jid) < MIN_JID_LENGTH:
        raise InvalidJob(f"jid {job.jid!r} has fewer than {MIN_JID_LENGTH} characters")
    if not job.jobtype:
        raise InvalidJob(f"job {job.jid} has no jobtype")
    if not isinstance(job.args, list):
        raise InvalidJob(f"args of {job.jid} must be a list, not {type(job.args).__name__}")
    if not 1 <= job.reserve_for <= MAX_RESERVE_FOR_S:
        raise InvalidJob(f"reserve_for of {job.jid} must be 1 to {MAX_RESERVE_FOR_S} s")
    if job.retry < -1:
        raise InvalidJob(f"retry of {job.jid} must be -1 (dead at once), 0 (discard) or more")
    if job.version < FIRST_VERSION:
        raise InvalidJob(f"version of {job.jid} must be {FIRST_VERSION} or more")
    check_queue_name(job.queue)


def check_numbers(value: object, where: str, largest: int | None, depth: int = 0) -> None:
    """Refuse what JSON or the server cannot carry. `largest` is None for a server that keeps all
    digits of an integer."""
    kind = type(value)
    if kind is int:
        _check_number(value, where, largest)  # type: ignore[arg-type]
    elif kind is str:
        return
    elif depth > MAX_DEPTH:
        raise InvalidJob(f"{where} is nested deeper than {MAX_DEPTH} levels")
    elif isinstance(value, Enum):
        check_numbers(value.value, where, largest, depth + 1)
    elif isinstance(value, int | float):
        _check_number(value, where, largest)
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            # Most are, and a call for each would cost more than all the rest.
            if type(item) is not str:
                check_numbers(item, where, largest, depth + 1)


def _check_number(value: float, where: str, largest: int | None) -> None:
    if isinstance(value, float):
        if not isfinite(value):
            raise InvalidJob(f"{where}: JSON has no {value}")
    elif largest is not None and not -largest <= value <= largest:
        raise InvalidJob(
            f"{where}: the server would change the integer {value} (beyond 2^53): "
            "send it as a string"
        )
