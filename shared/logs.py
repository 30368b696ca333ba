"""Logs for people and for machines: coloured lines on a terminal, JSON lines elsewhere."""

import logging
import sys

import structlog

Logger = structlog.typing.FilteringBoundLogger


def configure_logs(level: str) -> None:
    """Called once by each __main__; libraries only call `get_logger`."""
    is_terminal = sys.stderr.isatty()
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if is_terminal else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def get_logger(component: str) -> Logger:
    logger: Logger = structlog.get_logger(component=component)
    return logger
