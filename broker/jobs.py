"""A job as the broker sees it: read once when it is pushed, then kept as bytes.

`args` and `custom` are never decoded, so every digit and every byte of them comes back as it was
sent. Of the others it is as in Faktory, which is written in Go: null and empty mean the same as
absent and are not sent on, what is unknown is dropped, and a number must fit into 64 bits.
"""

import json
import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Any

import msgspec

from manyhands.shared.jobs import (
    DEFAULT_QUEUE,
    DEFAULT_RETRY,
    MAX_RESERVE_FOR_S,
    MIN_JID_LENGTH,
    QUEUE_NAME,
)

MAX_QUEUE_NAME = 256
# Payloads of jobs in hand are only needed again if they fail or come back.
KEPT_IN_HAND_BYTES = 1024


class Refused(Exception):
    """A command that is answered with -ERR; the text is Faktory's where clients match on it."""


Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


def _always_sent(kind: type) -> Any:
    """A field that is empty when it is absent, and is sent on all the same."""
    return msgspec.field(default_factory=kind)


class Failure(msgspec.Struct, omit_defaults=True, gc=False):
    """Why and how often a job failed, as clients read it."""

    retry_count: int | None = _always_sent(int)
    remaining: int | None = _always_sent(int)
    failed_at: str | None = _always_sent(str)
    next_at: str | None = None
    message: str | None = None
    errtype: str | None = None
    backtrace: list[str | None] | None = None

    @property
    def spent(self) -> int:
        """Retries so far."""
        return self.retry_count or 0

    def normalize(self) -> None:
        """Null and empty as Go has them."""
        self.retry_count = self.retry_count or 0
        self.remaining = self.remaining or 0
        self.failed_at = self.failed_at or ""
        self.next_at = self.next_at or None
        self.message = self.message or None
        self.errtype = self.errtype or None
        self.backtrace = [line or "" for line in self.backtrace or ()] or None


NO_ARGS = msgspec.Raw()


class WireJob(msgspec.Struct, omit_defaults=True, gc=False):
    """All fields of a job on the wire."""

    jid: str | None = None
    jobtype: str | None = None
    args: msgspec.Raw = NO_ARGS
    queue: str | None = None
    retry: int | None = None
    reserve_for: int | None = None
    created_at: str | None = None
    enqueued_at: str | None = None
    at: str | None = None
    custom: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    failure: Failure | None = None
    backtrace: int | None = None


class _PushedFailure(Failure, gc=False):
    retry_count: Int64 | None = _always_sent(int)
    remaining: Int64 | None = _always_sent(int)


class _PushedJob(WireJob, gc=False):
    """What is taken from a client: narrower than what is read again later."""

    retry: Int64 | None = None
    reserve_for: Int64 | None = None
    failure: _PushedFailure | None = None
    backtrace: Int64 | None = None


class StoredJob(msgspec.Struct, gc=False, eq=False):
    """A job that is in memory: at the head of its queue, or in somebody's hands.

    `key` is its row: the queue's number and a sequence (store.py). `owner` is the process that has
    it, `wid` the worker id of the connection that it went out on; times are of the monotonic
    clock. A row about it in `reservations` says who has it now, or only who had it. `payload` is
    empty if only the disk has it.
    """

    key: int
    jid: str
    reserve_for: int
    payload: bytes
    owner: str | None = None
    wid: str = ""
    since: float = 0.0
    reserved_until: float = 0.0
    given_back: int = 0
    is_reservation_stored: bool = False
    is_holder_stored: bool = False
    is_settled: bool = False

    def let_go(self) -> None:
        """It is in somebody's hands. It can be read again, so a large one does not stay here."""
        if len(self.payload) > KEPT_IN_HAND_BYTES:
            self.payload = b""


class _Header(msgspec.Struct, gc=False):
    jid: str
    reserve_for: int | None = None


class _Expiry(msgspec.Struct, gc=False):
    expires_at: str | float | None = None


class _WithExpiry(msgspec.Struct, gc=False):
    custom: _Expiry | None = None


_LIST, _OBJECT, _NULL = b"[{n"
_MAY_BE_EMPTY = b"} \t\r\n"
# What Go's time.Parse takes for RFC 3339; Python's own reader takes far more.
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:\d\d)", re.ASCII)
encode = msgspec.json.Encoder().encode
decode_one = msgspec.json.Decoder(WireJob).decode
_decode_one_or_null = msgspec.json.Decoder(_PushedJob | None).decode
_decode_many = msgspec.json.Decoder(list[_PushedJob | None] | None).decode
_decode_header = msgspec.json.Decoder(_Header).decode
_decode_expiry = msgspec.json.Decoder(_WithExpiry).decode


def from_row(key: int, payload: bytes) -> StoredJob:
    header = _decode_header(payload)
    return StoredJob(key, header.jid, header.reserve_for or 0, payload)


def utc_text(moment: float) -> str:
    # As `rfc3339`, in half the time, because the zone is known: each push needs it.
    return datetime.fromtimestamp(moment, UTC).isoformat().removesuffix("+00:00") + "Z"


def read_one(data: bytes) -> list[WireJob]:
    """What PUSH has. Raises Refused for a field of the wrong kind, a DecodeError for other JSON."""
    job = _decode_one_or_null(data) or WireJob()
    _check_raw(job)
    return [job]


def read_many(data: bytes) -> list[WireJob]:
    """What PUSHB has: all of its jobs, or none."""
    jobs: list[WireJob] = []
    for job in _decode_many(data) or ():
        jobs.append(job or WireJob())
        _check_raw(jobs[-1])
    return jobs


def _check_raw(job: WireJob) -> None:
    """What is kept as it came must at least be of the right kind; its first byte says so."""
    if job.args is not NO_ARGS and (first := memoryview(job.args)[0]) != _LIST:
        if first != _NULL:
            raise Refused("invalid JSON: args must be a list")
        job.args = NO_ARGS
    if job.custom is not msgspec.UNSET:
        custom = memoryview(job.custom)
        if custom[0] != _OBJECT or custom[1] in _MAY_BE_EMPTY:
            _check_odd_custom(job, bytes(custom))


def _check_odd_custom(job: WireJob, custom: bytes) -> None:
    if custom[0] not in (_OBJECT, _NULL):
        raise Refused("invalid JSON: custom must be an object")
    if custom[0] == _NULL or not custom[1:-1].strip():
        job.custom = msgspec.UNSET


def check_pushed(job: WireJob, now_text: str) -> float:
    """Refuse what Faktory refuses, in its words and in its order, and make of the rest what it
    makes of it. Returns when the job is to be queued; 0 for now."""
    jid = job.jid
    if not jid or (len(jid) < MIN_JID_LENGTH and len(jid.encode()) < MIN_JID_LENGTH):
        raise Refused("jobs must have a reasonable jid parameter")
    if not job.jobtype:
        raise Refused("jobs must have a jobtype parameter")
    if job.args is NO_ARGS:
        raise Refused("jobs must have an args parameter")
    if job.reserve_for and job.reserve_for > MAX_RESERVE_FOR_S:
        raise Refused("jobs cannot be reserved for more than one day")
    at = parse_time(job.at, "at") if job.at else 0.0
    if not job.queue:
        job.queue = DEFAULT_QUEUE
    else:
        # A real Faktory takes it when the job is scheduled, and loses the job when it is due.
        check_queue(job.queue)
    _fill_in(job, now_text)
    return at


def _fill_in(job: WireJob, now_text: str) -> None:
    """None is what is not sent on; null and empty become it."""
    if job.retry is None:
        job.retry = DEFAULT_RETRY
    if not job.created_at:
        job.created_at = now_text
    if job.enqueued_at == "":
        job.enqueued_at = None
    if job.at == "":
        job.at = None
    if job.reserve_for == 0:
        job.reserve_for = None
    if job.backtrace == 0:
        job.backtrace = None
    if job.failure is not None:
        job.failure.normalize()


def check_queue(name: str) -> None:
    if len(name) > MAX_QUEUE_NAME:
        shown, limit = json.dumps(name[:50], ensure_ascii=False), MAX_QUEUE_NAME
        raise Refused(f"cannot get {shown}... queue: queue names have {limit} characters at most")
    if not _is_queue_name(name):
        shown = json.dumps(name, ensure_ascii=False)
        raise Refused(f"cannot get {shown} queue: queue names must match \\A[a-zA-Z0-9._-]+\\z")


@lru_cache(maxsize=1024)
def _is_queue_name(name: str) -> bool:
    return QUEUE_NAME.fullmatch(name) is not None


def parse_time(text: str, field: str) -> float:
    try:
        if not _RFC3339.fullmatch(text):
            raise ValueError("another format")
        # In UTC it must still be within the years that can be written.
        return datetime.fromisoformat(text).astimezone(UTC).timestamp()
    except (ValueError, OverflowError):
        shown = json.dumps(text, ensure_ascii=False)
        raise Refused(
            f"invalid timestamp for '{field}': {shown}: use RFC 3339, 2006-01-02T15:04:05Z"
        ) from None


def expires_at(payload: bytes) -> float | None:
    """When a job is of no use any more, by `expires_at` in its `custom`; None when it always is."""
    if b'"expires_at"' not in payload:
        return None
    try:
        custom = _decode_expiry(payload).custom
        value: Any = custom.expires_at if custom else None
        return parse_time(value, "expires_at") if isinstance(value, str) else value
    except (msgspec.DecodeError, Refused):
        return None
