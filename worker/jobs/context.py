"""What a handler can ask of the worker: the job's identity, its deadline, and where results go."""

from typing import Any, Protocol

from manyhands.shared.errors import ConfigError
from manyhands.shared.jobs import Job
from manyhands.shared.logs import Logger, get_logger
from manyhands.worker.jobs.delivery import Delivery
from manyhands.worker.jobs.message import Message
from manyhands.worker.records import Capture, PageRecord, PlainRecord, Record


class RecordTaker(Protocol):
    """What a context knows of the worker's sinks."""

    def takes(self, kind: type) -> bool: ...


class JobContext:
    """One job's view of the worker. Records and children are collected here, and made durable
    and queued by run_one after the handler has returned, in this order, before the ACK."""

    __slots__ = ("_delivery", "_kept", "_sinks", "children", "records")

    def __init__(self, delivery: Delivery, sinks: RecordTaker | None) -> None:
        self._delivery = delivery
        self._sinks = sinks
        self._kept: object = None
        self.children: list[Job] = []
        self.records: list[Record] = []

    @property
    def id(self) -> str:
        """The job's identity: stays the same through put-back, Retry and Defer."""
        return self._delivery.id

    @property
    def jid(self) -> str:
        """The server's key of this delivery: a new one each time that the job is queued."""
        return self._delivery.jid

    @property
    def deliveries(self) -> int:
        """How often this job was handed out, this time included."""
        return self._delivery.deliveries

    @property
    def version(self) -> int:
        """Of the payload: never newer than the handler's `@job(version=…)`, but maybe older."""
        return self._delivery.version

    @property
    def deadline(self) -> float:
        """When the job is cancelled, on the event loop's clock (`loop.time()`)."""
        return self._delivery.deadline

    @property
    def fields(self) -> dict[str, Any]:
        """The job as the server sent it, with every field of its producer; each call makes a
        copy."""
        return self._delivery.fields()

    @property
    def custom(self) -> dict[str, Any]:
        """What the producer sent beside the arguments; may be empty."""
        custom = self.fields.get("custom")
        return custom if isinstance(custom, dict) else {}

    @property
    def message(self) -> Message | None:
        """Of a worker that takes its jobs from Kafka: the record's topic, partition, offset, key
        and headers."""
        return self._delivery.message

    @property
    def log(self) -> Logger:
        return get_logger("job").bind(id=self.id, jobtype=self._delivery.jobtype)

    def can_emit(self, kind: type = PlainRecord) -> bool:
        """Whether this worker has a sink for such records."""
        return self._sinks is not None and self._sinks.takes(kind)

    def push(self, *children: Job) -> None:
        """Queue these jobs if, and only if, this one succeeds."""
        self.children.extend(children)

    def keep(self, held: object) -> None:
        """Keep it alive until records and children are stored."""
        self._kept = held

    def emit(self, record: Any) -> None:
        """Hand a record to the worker's sinks; the job is not acknowledged before they have it."""
        made = self._as_record(record)
        if not self.can_emit(type(made)):
            if isinstance(made, PageRecord) and self.can_emit(Capture):
                return  # a worker that only archives pages may want nothing else
            raise ConfigError("this worker has no sink for it, a record would be lost: set SINKS")
        self.records.append(made)

    def _as_record(self, record: Any) -> Record:
        if isinstance(record, Record):
            return record
        given = record.get("id") if isinstance(record, dict) else None
        # By its position: the same when the job is repeated.
        own = f"{self.id}.{len(self.records)}"
        return PlainRecord(given if isinstance(given, str) else own, record)
