"""Logs are set up for a whole process; a test that does so puts them back."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import structlog


@contextmanager
def restored_logs() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, settings = root.handlers, root.level, structlog.get_config()
    try:
        yield
    finally:
        root.handlers = handlers
        root.setLevel(level)
        structlog.configure(**settings)
