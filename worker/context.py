"""What a handler may ask for: who the job is, how long it has, and where its results go."""

from typing import Any

from shared.errors import ConfigError
from shared.jobs import Job
from shared.logs import Logger, get_logger
from worker.delivery import Delivery


class JobContext:
    """One job's view of the worker. Records and children are collected here, and made durable
    and queued by run_one after the handler has returned, in this order, before the ACK."""

    __slots__ = ("_can_emit", "_delivery", "children", "records")

    def __init__(self, delivery: Delivery, *, can_emit: bool) -> None:
        self._delivery = delivery
        self._can_emit = can_emit
        self.children: list[Job] = []
        self.records: list[Any] = []

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
    def log(self) -> Logger:
        return get_logger("job").bind(id=self.id, jobtype=self._delivery.jobtype)

    @property
    def can_emit(self) -> bool:
        """Whether this worker has a sink."""
        return self._can_emit

    def push(self, *children: Job) -> None:
        """Queue these jobs if, and only if, this one succeeds."""
        self.children.extend(children)

    def emit(self, record: Any) -> None:
        """Hand a record to the worker's sinks; the job is not acknowledged before they have it."""
        if not self._can_emit:
            raise ConfigError("this worker has no sink, a record would be lost: set SINK_NDJSON")
        self.records.append(record)
