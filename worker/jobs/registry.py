"""Job type → handler: the `@job` decorator, and the check of a payload against its signature."""

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from manyhands.shared.crawl.messages import ALL_CRAWL_QUEUES, CRAWL_QUEUE
from manyhands.shared.errors import ConfigError, InvalidJob
from manyhands.shared.jobs import DEFAULT_QUEUE, FIRST_VERSION, check_queue_name
from manyhands.shared.jobtypes import JOB_TYPES
from manyhands.worker.jobs.context import JobContext
from manyhands.worker.jobs.setup import ProcessSetup, SetupHook

Function = TypeVar("Function", bound=Callable[..., Any])


# Pydantic returns a value of exactly such a type unchanged.
PLAIN_TYPES = (int, str, bool, float)


class BadArguments(ValueError):
    """The payload does not fit the handler's signature."""


@dataclass(slots=True, frozen=True)
class Handler:
    """The function for one job type and the arguments it takes. `queue` is in the notation of
    WORKER_QUEUES; `version` is the newest payload that it understands."""

    jobtype: str
    queue: str
    version: int
    function: Callable[..., Any]
    is_async: bool
    context_at: int | None
    names: tuple[str, ...]
    plain_types: tuple[type, ...] | None
    takes_more: bool
    model: type[BaseModel] | None
    # Of Kafka: each value of it is an argument as it is.
    topic: str = ""

    @property
    def wants_context(self) -> bool:
        return self.context_at is not None

    def arguments(self, args: list[Any], context: JobContext | None) -> list[Any]:
        """The call's arguments, checked and converted. Raises BadArguments, one line per field."""
        if self.model is None or self._fits_exactly(args):
            checked = list(args)
        else:
            checked = self._checked(self.model, args)
        if self.context_at is not None:
            checked.insert(self.context_at, context)
        return checked

    def _fits_exactly(self, args: list[Any]) -> bool:
        """True when validation would return the arguments unchanged: most jobs, in a tenth of the
        time."""
        if self.plain_types is None or len(args) != len(self.plain_types):
            return False
        for value, plain_type in zip(args, self.plain_types, strict=True):
            if type(value) is not plain_type:
                return False
        return True

    def _checked(self, model: type[BaseModel], args: list[Any]) -> list[Any]:
        known, more = args[: len(self.names)], args[len(self.names) :]
        if more and not self.takes_more:
            raise BadArguments(
                f"{self.jobtype} takes {len(self.names)} arguments, {len(args)} were given"
            )
        try:
            checked = model.model_validate(dict(zip(self.names, known, strict=False)))
        except ValidationError as error:
            lines = [f"{_field(problem)}: {problem['msg']}" for problem in error.errors()]
            raise BadArguments(f"{self.jobtype}: " + "; ".join(lines)) from None
        return list(checked.__dict__.values()) + more


def _field(problem: Any) -> str:
    return ".".join(str(part) for part in problem["loc"])


@dataclass(slots=True)
class Registry:
    """State: the handlers by job type, the setup hooks, and whether these were called. All `@job`s
    of a process share one."""

    handlers: dict[str, Handler] = field(default_factory=dict)
    hooks: list[SetupHook] = field(default_factory=list)
    is_set_up: bool = True

    def job(
        self,
        jobtype: str,
        *,
        queue: str | None = None,
        version: int = FIRST_VERSION,
        topic: str = "",
    ) -> Callable[[Function], Function]:
        """Register an async or sync function for a job type. Its parameters are the job's args;
        one that is annotated `JobContext` gets the context instead.

        Such jobs are taken from `queue`; by default from the queue of the type if it is one of
        ours, else from `default`. `version` is the newest payload that the function
        understands: a job with a newer one is left to a worker that does.

        With a `topic` of Kafka, each of its records is a job of this type, whose only argument is
        the record's value as bytes; key and headers are in `context.message`."""

        def register(function: Function) -> Function:
            if jobtype in self.handlers:
                raise ConfigError(f"two handlers for job type {jobtype!r}")
            self.handlers[jobtype] = make_handler(jobtype, function, queue, version, topic)
            return function

        return register

    def setup(self, hook: SetupHook) -> SetupHook:
        """Register a function that prepares its module's handlers. It is called once, in the event
        loop's thread, before the first job."""
        self.hooks.append(hook)
        self.is_set_up = False
        return hook

    def set_up(self, process: ProcessSetup) -> None:
        """Call every hook, in the order of registration."""
        self.is_set_up = True
        for hook in self.hooks:
            hook(process)

    def get(self, jobtype: str) -> Handler | None:
        return self.handlers.get(jobtype)

    def queues_by_type(self) -> dict[str, str]:
        """Where each registered type is consumed from, in the notation of WORKER_QUEUES."""
        return {jobtype: handler.queue for jobtype, handler in self.handlers.items()}

    def types_by_topic(self) -> dict[str, str]:
        """The job type of all records of a topic, where a handler declares one."""
        found: dict[str, str] = {}
        for handler in self.handlers.values():
            if handler.topic in found:
                raise ConfigError(f"two handlers for the topic {handler.topic!r}")
            if handler.topic:
                found[handler.topic] = handler.jobtype
        return found


def make_handler(
    jobtype: str,
    function: Callable[..., Any],
    queue: str | None = None,
    version: int = FIRST_VERSION,
    topic: str = "",
) -> Handler:
    if version < FIRST_VERSION:
        raise ConfigError(f"{jobtype}: version {version} is below the first, {FIRST_VERSION}")
    hints = typing.get_type_hints(function)
    fields: dict[str, Any] = {}
    names: list[str] = []
    context_at: int | None = None
    takes_more = False
    for position, parameter in enumerate(inspect.signature(function).parameters.values()):
        hint = hints.get(parameter.name, Any)
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD):
            raise ConfigError(f"{jobtype}: {parameter.name} is keyword-only, but args are a list")
        if hint is JobContext:
            context_at = position
        elif parameter.kind is parameter.VAR_POSITIONAL:
            takes_more = True
        else:
            default = ... if parameter.default is parameter.empty else parameter.default
            # An alias, because a model refuses some names that are fine for parameters.
            fields[f"a{len(names)}"] = (hint, Field(default, validation_alias=parameter.name))
            names.append(parameter.name)
    model = create_model(
        f"{jobtype}_arguments",
        __config__=ConfigDict(arbitrary_types_allowed=True, protected_namespaces=()),
        **fields,
    )
    types = tuple(hints.get(name, Any) for name in names)
    is_checked = fields or not takes_more
    return Handler(
        jobtype=jobtype,
        queue=_queue_of(jobtype, queue),
        version=version,
        function=function,
        is_async=inspect.iscoroutinefunction(function),
        context_at=context_at,
        names=tuple(names),
        plain_types=types if all(one in PLAIN_TYPES for one in types) else None,
        takes_more=takes_more,
        model=model if is_checked else None,
        topic=topic,
    )


def _queue_of(jobtype: str, queue: str | None) -> str:
    if queue is None:
        kind = JOB_TYPES.get(jobtype)
        return kind.queues if kind is not None else DEFAULT_QUEUE
    try:
        check_queue_name(queue if queue != ALL_CRAWL_QUEUES else CRAWL_QUEUE)
    except InvalidJob as error:
        raise ConfigError(f"{jobtype}: {error}") from None
    return queue


REGISTRY = Registry()
job = REGISTRY.job
setup = REGISTRY.setup
