"""A record of a topic as a job in hand. Pure.

Either its value is a job as JSON, as clients of Faktory write it (jobtype, args, and maybe more),
or a handler has declared the topic, `@job("click", topic="clicks")`, and gets each value as it is.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from manyhands.shared.errors import ProtocolError
from manyhands.shared.jobs import DEFAULT_RETRY
from manyhands.worker.jobs.delivery import Delivery
from manyhands.worker.source.kafka.failures import PREFIX, Failing
from manyhands.worker.source.kafka.partition import Held, Partition


class KafkaDelivery(Delivery):
    """A `Delivery` that knows its record and the partition that it came with."""

    __slots__ = ("held", "runs_again", "source")

    def __init__(
        self, held: Held, source: Partition, fields: dict[str, Any], received_at: float
    ) -> None:
        super().__init__(held.value or b"", fields, received_at)
        self.held = held
        self.source = source
        self.runs_again = False
        self.message = held.message

    def fields(self) -> dict[str, Any]:
        """The whole job, if it is one."""
        if self.message is not None and self.args and self.args[0] is self.held.value:
            return {"jid": self.jid, "jobtype": self.jobtype, "args": self.args}
        return super().fields()

    def failing(self) -> Failing:
        retries = DEFAULT_RETRY
        if type(told := self.fields().get("retry")) is int:
            retries = told
        return Failing(self.held.message, self.held.value, self.held.told, max(0, retries))


def make_delivery(
    held: Held, source: Partition, raw_types: Mapping[str, str], received_at: float
) -> KafkaDelivery:
    """`raw_types` is the job type by topic, of those whose values are no jobs. Raises
    ProtocolError."""
    message = held.message
    name = f"{message.topic}/{message.partition}/{message.offset}"
    # What failed before is of the topic that it came from.
    has_history = any(header[0].startswith(PREFIX) for header in message.headers)
    topic = held.told.topic if has_history else message.topic
    origin = held.told.origin if has_history else name
    jobtype = raw_types.get(topic)
    if jobtype is not None:
        fields: dict[str, Any] = {"jid": origin, "jobtype": jobtype, "args": [held.value or b""]}
    else:
        fields = _job(held.value)
    try:
        given = fields.get("jid")
        fields["jid"] = given if isinstance(given, str) and given else origin
        delivery = KafkaDelivery(held, source, fields, received_at)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProtocolError(f"no job: {error!r}") from None
    if not isinstance(delivery.args, list) or not isinstance(delivery.jobtype, str):
        raise ProtocolError("no job: jobtype must be a string, and args a list")
    # The key of this very record: two with one jid are two, and both must be committed.
    delivery.jid = name
    # How often it failed is written on the record; what it says of itself is from another queue.
    delivery.deliveries += held.told.failures if has_history else 0
    delivery.is_once = False
    return delivery


def _job(value: bytes | None) -> dict[str, Any]:
    if value is None:
        raise ProtocolError("no job: the record has no value")
    try:
        fields = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise ProtocolError(f"no job: not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ProtocolError("no job: not a JSON object")
    if missing := [name for name in ("jobtype", "args") if name not in fields]:
        raise ProtocolError(f"no job: {' and '.join(missing)} missing")
    return fields
