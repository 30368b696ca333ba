"""A job as the broker sees it: read once when it is pushed, then kept as bytes.

`args` and `custom` are never decoded, so every digit and every byte of them comes back as it was
sent. Other fields that Faktory does not know are dropped, as Faktory does.
"""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from shared.jobs import (
    DEFAULT_QUEUE,
    DEFAULT_RETRY,
    MAX_RESERVE_FOR_S,
    MIN_JID_LENGTH,
    QUEUE_NAME,
    rfc3339,
)


class Refused(Exception):
    """A command that is answered with -ERR; the text is Faktory's where clients match on it."""


class Failure(msgspec.Struct, gc=False):
    """Why and how often a job failed, as clients read it."""

    retry_count: int = 0
    remaining: int = 0
    failed_at: str = ""
    next_at: str = ""
    message: str = ""
    errtype: str = ""
    backtrace: list[str] | None = None


class WireJob(msgspec.Struct, omit_defaults=True, gc=False):
    """All fields of a job on the wire. Null is the same as absent, as in Go."""

    jid: str | None = None
    jobtype: str | None = None
    args: msgspec.Raw = msgspec.Raw()
    queue: str | None = None
    retry: int | None = None
    reserve_for: int | None = None
    created_at: str | None = None
    enqueued_at: str | None = None
    at: str | None = None
    custom: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    failure: Failure | None = None
    backtrace: int | None = None


class StoredJob(msgspec.Struct, gc=False, eq=False):
    """A job that is in memory: at the head of its queue, or in somebody's hands.

    `key` is its row: the queue's number and a sequence (store.py). `owner` is the process that has
    it, `wid` the worker id of the connection that it went out on; times are Unix times. A row about
    it in `reservations` says who has it now, or only who had it.
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


class _Header(msgspec.Struct, gc=False):
    jid: str
    reserve_for: int | None = None


class _Expiry(msgspec.Struct, gc=False):
    expires_at: str | float | None = None


class _WithExpiry(msgspec.Struct, gc=False):
    custom: _Expiry | None = None


_LIST, _OBJECT, _NULL = b"[{n"
encode = msgspec.json.Encoder().encode
decode_one = msgspec.json.Decoder(WireJob).decode
decode_many = msgspec.json.Decoder(list[WireJob]).decode
_decode_header = msgspec.json.Decoder(_Header).decode
_decode_expiry = msgspec.json.Decoder(_WithExpiry).decode


def from_row(key: int, payload: bytes) -> StoredJob:
    header = _decode_header(payload)
    return StoredJob(key, header.jid, header.reserve_for or 0, payload)


def utc_text(moment: float) -> str:
    return rfc3339(datetime.fromtimestamp(moment, UTC))


def check_pushed(job: WireJob, now_text: str) -> None:
    """Refuse what Faktory refuses, in its words, and fill in what it fills in."""
    if not job.jid or len(job.jid) < MIN_JID_LENGTH:
        raise Refused("jobs must have a reasonable jid parameter")
    if not job.jobtype:
        raise Refused("jobs must have a jobtype parameter")
    _check_raw(job)
    if job.reserve_for and job.reserve_for > MAX_RESERVE_FOR_S:
        raise Refused("jobs cannot be reserved for more than one day")
    if not job.queue:
        job.queue = DEFAULT_QUEUE
    else:
        # A real Faktory takes it when the job is scheduled, and loses the job when it is due.
        check_queue(job.queue)
    if job.retry is None:
        job.retry = DEFAULT_RETRY
    if not job.created_at:
        job.created_at = now_text


def check_queue(name: str) -> None:
    if not _is_queue_name(name):
        raise Refused(f'cannot get "{name}" queue: queue names must match [a-zA-Z0-9._-]+')


@lru_cache(maxsize=1024)
def _is_queue_name(name: str) -> bool:
    return QUEUE_NAME.fullmatch(name) is not None


def _check_raw(job: WireJob) -> None:
    """What is kept as it came must at least be of the right kind; its first byte says so."""
    args = memoryview(job.args)
    if not args or args[0] == _NULL:
        raise Refused("jobs must have an args parameter")
    if args[0] != _LIST:
        raise Refused("invalid JSON: args must be a list")
    if job.custom is not msgspec.UNSET and memoryview(job.custom)[0] not in (_OBJECT, _NULL):
        raise Refused("invalid JSON: custom must be an object")


def due_time(job: WireJob) -> float:
    """When a job is to be queued; 0 for now."""
    return parse_time(job.at, "at") if job.at else 0.0


def parse_time(text: str, field: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise Refused(f"invalid timestamp for '{field}': \"{text}\": it has no time zone")
        # In UTC it must still be within the years that can be written.
        return moment.astimezone(UTC).timestamp()
    except (ValueError, OverflowError):
        raise Refused(f"invalid timestamp for '{field}': \"{text}\"") from None


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
