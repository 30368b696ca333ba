"""A job in hand: parsed once, kept small, and able to become a fresh job again. Pure.

Thousands are held at a time, so a delivery keeps the bytes that the server sent and only those
parsed fields that every job needs. The rare put-back reads the bytes again and changes only what it
must: everything else in the job stays as it came, byte for byte.
"""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import msgspec
import orjson

from manyhands.shared.errors import ProtocolError
from manyhands.shared.faktory.codec import as_json_text
from manyhands.shared.jobs import (
    DEFAULT_RESERVE_FOR_S,
    DEFAULT_RETRY,
    FIRST_VERSION,
    MIN_RESERVE_FOR_S,
    new_jid,
    rfc3339,
    utc_now,
)
from manyhands.worker.jobs.message import Message
from manyhands.worker.jobs.outcomes import Defer, Move, PutBack, Retry

# Time to report a result before the reservation ends: a share of it, within limits.
MARGIN_SHARE = 0.1
MAX_MARGIN_S = 15.0

_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


class Delivery:
    """One job that the server reserved for us.

    `deadline` and `reserved_until` are on the loop's clock; `stage` is a number of this process's
    source. Mutable: the task that runs it, why it was cancelled, the jids of copies that arrived
    meanwhile, whether it is in a slot, its number among the held jobs if it is one (held_jobs.py),
    whether its handler has returned, and whether it is settled.
    """

    __slots__ = (
        "args",
        "cancel_reason",
        "copies",
        "deadline",
        "deaths",
        "deliveries",
        "has_slot",
        "held_as",
        "id",
        "is_handled",
        "is_once",
        "is_settled",
        "jid",
        "jobtype",
        "message",
        "payload",
        "reserved_until",
        "stage",
        "task",
        "version",
    )

    def __init__(self, payload: bytes, fields: dict[str, Any], reserved_after: float) -> None:
        self.payload = payload
        self.jid: str = fields["jid"]
        self.jobtype: str = fields["jobtype"]
        self.args: list[Any] = fields["args"]
        self.id: str = self.jid
        # How often it was handed out, after put-backs and failures, this time included.
        self.deliveries: int = 1
        # How many processes ended while they had it, as far as is known.
        self.deaths: int = 0
        self.version: int = FIRST_VERSION
        if ours := _ours(fields):
            if _is_identity(ours):
                self.id = ours["id"]
                self.deliveries += ours["deliveries"]
            version = ours.get("v")
            if type(version) is int:
                self.version = version
            if type(deaths := ours.get("deaths")) is int:
                self.deaths = deaths
        if "failure" in fields:
            self.deliveries += _retry_count(fields["failure"]) + 1
        reserve_for_s = max(fields.get("reserve_for") or DEFAULT_RESERVE_FOR_S, MIN_RESERVE_FOR_S)
        self.reserved_until = reserved_after + reserve_for_s
        self.deadline = self.reserved_until - min(MAX_MARGIN_S, MARGIN_SHARE * reserve_for_s)
        # A real Faktory discards it when a reservation ends.
        self.is_once: bool = fields.get("retry") == 0
        self.held_as = 0
        self.stage = 0
        # Of a Kafka topic, if it came from one.
        self.message: Message | None = None
        self.task: asyncio.Task[None] | None = None
        self.cancel_reason = ""
        self.copies: list[Delivery] | None = None
        self.has_slot = True
        self.is_handled = False
        self.is_settled = False

    def fields(self) -> dict[str, Any]:
        """The whole job as the server sent it."""
        fields: dict[str, Any] = orjson.loads(self.payload)
        return fields


def parse_delivery(payload: bytes, reserved_after: float) -> Delivery:
    """Read a job from the server's answer. Raises ProtocolError when it is not one."""
    try:
        fields = orjson.loads(payload)
        delivery = Delivery(payload, fields, reserved_after)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProtocolError(f"an unreadable job ({error!r}): {payload[:200]!r}") from None
    if not (isinstance(delivery.jid, str) and isinstance(delivery.args, list)):
        raise ProtocolError(f"a job without jid or args: {payload[:200]!r}")
    return delivery


def fresh_copy(delivery: Delivery, outcome: Retry | Defer | Move | PutBack) -> bytes | None:
    """The copy to queue when a job must run again; None when it has no retry left."""
    if isinstance(outcome, Retry):
        return retry_copy(delivery, outcome)
    if isinstance(outcome, Defer):
        return deferred_copy(delivery, outcome.until)
    if isinstance(outcome, Move):
        return _fresh(delivery, deliveries=0, queue=outcome.queue)
    return put_back_copy(delivery)


def put_back_copy(delivery: Delivery) -> bytes:
    """The same job under a fresh jid, to run as soon as a worker is free."""
    return _fresh(delivery)


def copy_after_death(delivery: Delivery, deaths: int) -> bytes:
    """Like `put_back_copy`, for a job whose process died: counts how often that has happened."""
    return _fresh(delivery, noted={"deaths": deaths})


def deferred_copy(delivery: Delivery, until: datetime) -> bytes:
    return _fresh(delivery, at=rfc3339(until))


def retry_copy(delivery: Delivery, retry: Retry) -> bytes | None:
    """The same job with one retry spent, to run after the handler's delay; None when it has no
    retries left, so that the server decides."""
    fields = delivery.fields()
    failure = fields.get("failure")
    if not isinstance(failure, dict):
        failure = {}
    retry_limit = fields.get("retry")
    allowed = DEFAULT_RETRY if retry_limit is None else retry_limit
    spent = _retry_count(failure) + 1
    if spent >= allowed:
        return None
    now = utc_now()
    until = rfc3339(now + timedelta(seconds=retry.after_s))
    failure |= {
        "retry_count": spent,
        "remaining": allowed - spent,
        "failed_at": rfc3339(now),
        "next_at": until,
        "message": as_json_text(retry.reason),
        "errtype": type(retry).__name__,
    }
    # The failure counts this delivery already.
    return _fresh(delivery, deliveries=0, failure=failure, at=until)


def _fresh(
    delivery: Delivery, deliveries: int = 1, noted: dict[str, int] | None = None, **changes: Any
) -> bytes:
    """Every field as it came, but a new jid: the ACK of the old one must not clear the new one.
    Adds `deliveries` to the stored count, and the fields of `noted`."""
    fields: dict[str, Any] = _decode_object(delivery.payload)
    ours = _ours(delivery.fields())
    sent = bytes(fields.get("custom", b""))
    custom: dict[str, Any] = _decode_object(sent) if sent.startswith(b"{") else {}
    if _is_identity(ours):
        deliveries += ours["deliveries"]
    for name in ("enqueued_at", "at"):
        fields.pop(name, None)
    fields["jid"] = new_jid()
    ours |= {"id": delivery.id, "deliveries": deliveries} | (noted or {})
    fields["custom"] = custom | {"mh": ours}
    return _encode(fields | changes)


def _retry_count(failure: object) -> int:
    """How many retries are spent; -1 before the first failure, as the server counts."""
    return int(failure.get("retry_count", 0)) if isinstance(failure, dict) and failure else -1


def _ours(fields: dict[str, Any]) -> dict[str, Any]:
    """`custom.mh`, unless another producer put something strange there."""
    custom = fields.get("custom")
    mh = custom.get("mh") if isinstance(custom, dict) else None
    return mh if isinstance(mh, dict) else {}


def _is_identity(ours: dict[str, Any]) -> bool:
    """Other producers may set only a version there."""
    name = ours.get("id")
    return isinstance(name, str) and name != "" and isinstance(ours.get("deliveries"), int)
