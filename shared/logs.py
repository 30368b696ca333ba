"""Logs for people and for machines: coloured lines on a terminal, JSON lines elsewhere.

Every line has timestamp, level, component and event, and the fields that its process fixed. What
libraries log by `logging` looks the same.
"""

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from typing import TextIO, cast


@contextlib.contextmanager
def _without(*modules: str) -> Iterator[None]:
    """As if these were not installed."""
    hidden = [name for name in modules if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


# It imports both where they are there, for things that we do not use: a quarter of the time that a
# service takes to start.
with _without("rich", "twisted"):
    import structlog

Logger = structlog.typing.FilteringBoundLogger
EventDict = structlog.typing.EventDict

# In this order, before everything else.
FIRST_FIELDS = ("timestamp", "level", "component", "event")


def configure_logs(level: str, **fixed: str) -> None:
    """Each process calls this once before it logs; everything else only calls `get_logger`.

    `fixed` are fields of every line: service, and process_type and process_id where there are
    several processes. The pid is added.
    """
    threshold = logging.getLevelNamesMapping()[level.upper()]
    stream = own_stream()
    is_terminal = stream.isatty()
    processors: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: structlog.typing.Processor
    if is_terminal:
        # Somebody at a terminal knows what they started; only which process speaks is news.
        processors.append(_FixedFields({k: v for k, v in fixed.items() if k == "process_id"}))
        renderer = structlog.dev.ConsoleRenderer()
    else:
        processors += [
            _FixedFields({**fixed, "pid": os.getpid()}),
            structlog.processors.format_exc_info,
        ]
        renderer = structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[*processors, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        # One write for a line: several processes share the file.
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", _Patient(stream))),
        cache_logger_on_first_use=True,
    )
    _take_in_libraries(threshold, processors, renderer)


def get_logger(component: str) -> Logger:
    logger: Logger = structlog.get_logger(component=component)
    return logger


def every_line_logger(component: str) -> Logger:
    """One that no level silences: of what was said to be read."""
    logger: Logger = structlog.wrap_logger(
        structlog.WriteLogger(cast("TextIO", _Patient(own_stream()))),
        wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),
        component=component,
    )
    return logger


def tell_end(service: str, error: Exception) -> None:
    """Why a service cannot run, or go on. On a terminal in words, elsewhere a line of its log, also
    if that was not configured yet."""
    if own_stream().isatty():
        sys.stderr.write(f"{service}: {error}\n")
        return
    if not structlog.is_configured():
        configure_logs("info", service=service)
    every_line_logger(service).critical(str(error))


def refused(service: str, command: str | None, error: Exception) -> int:
    """The exit code of a service, or of its subcommand, which people use: it says why in words."""
    if command is None:
        tell_end(service, error)
    else:
        sys.stderr.write(f"{service}: {error}\n")
    return 1


def own_stream() -> TextIO:
    """sys.stderr, or what stands behind it, see `taken_output`."""
    return cast("TextIO", getattr(sys.stderr, "behind", sys.stderr))


class _Patient:
    """A stream that may be on a full disk: a line that cannot be written must not stop the work
    it describes. State: how many lines were lost."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lost = 0

    def write(self, text: str) -> None:
        try:
            self._stream.write(text)
        except OSError:
            self._lost += 1

    def flush(self) -> None:
        # Some streams keep what they could not write, and try again each time.
        with contextlib.suppress(OSError):
            self._stream.flush()
            if self._lost:
                text = f"{self._lost} lines of the log could not be written"
                self._stream.write(f'{{"event": "{text}"}}\n')
                self._lost = 0


class _FixedFields:
    """A processor. A line's own field goes before a fixed one of the same name."""

    def __init__(self, fixed: dict[str, object]) -> None:
        self._fixed = fixed

    def __call__(self, _logger: object, _method: str, event_dict: EventDict) -> EventDict:
        first = {name: event_dict[name] for name in FIRST_FIELDS if name in event_dict}
        return {**first, **self._fixed, **event_dict}


def _take_in_libraries(
    threshold: int,
    processors: list[structlog.typing.Processor],
    renderer: structlog.typing.Processor,
) -> None:
    """Only warnings and errors of libraries: below that they log their own internals."""
    handler = logging.StreamHandler(own_stream())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[_name_component, *processors],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    # Not beside another one: a forked process has that of its parent.
    root.handlers = [handler]
    root.setLevel(max(threshold, logging.WARNING))


def _name_component(_logger: object, _method: str, event_dict: EventDict) -> EventDict:
    event_dict["component"] = event_dict["_record"].name
    return event_dict
