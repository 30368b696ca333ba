"""What is not logged becomes lines of the log, too: warnings, uncaught exceptions, and what
handlers and libraries print. So every line of a service is one JSON object where it is no terminal.
"""

import io
import json
import logging
import sys
import threading
from types import TracebackType
from typing import TextIO

from manyhands.shared.logs import every_line_logger, own_stream

# One that has no end is cut here.
LONGEST_LINE = 64 * 1024


def take_in_output() -> None:
    """For a whole process, once its logs are configured: replaces sys.stdout and sys.stderr."""
    if sys.stderr.isatty():
        return
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread
    if not sys.stdout.isatty():
        sys.stdout = Lines(sys.stdout, "stdout", "info")
    sys.stderr = Lines(own_stream(), "stderr", "warning")


class Lines(io.TextIOBase):
    """A stream whose lines are logged, but for those that are JSON objects already. State: what
    has come of the present line, and whether a line is being logged: what that prints itself goes
    to the stream as it is."""

    def __init__(self, stream: TextIO, component: str, level: str) -> None:
        self.behind = stream
        self._log = every_line_logger(component)
        self._level = level
        self._begun = ""
        self._lock = threading.RLock()
        self._is_logging = False

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.behind.encoding

    @property
    def buffer(self) -> object:
        """Bytes cannot be taken in."""
        return getattr(self.behind, "buffer", None)

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return self.behind.fileno()

    def write(self, text: str) -> int:
        with self._lock:
            if self._is_logging:
                return self.behind.write(text)
            *lines, self._begun = (self._begun + text).split("\n")
            for line in lines:
                self._tell(line)
            if len(self._begun) > LONGEST_LINE:
                self._end()
        return len(text)

    def flush(self) -> None:
        """A line that has not ended is one, then."""
        with self._lock:
            if self._begun:
                self._end()
            self.behind.flush()

    def _end(self) -> None:
        line, self._begun = self._begun, ""
        self._tell(line)

    def _tell(self, line: str) -> None:
        if not line.strip():
            return
        if _is_object(line):
            self.behind.write(f"{line}\n")
            return
        self._is_logging = True
        try:
            getattr(self._log, self._level)(line)
        finally:
            self._is_logging = False


def _is_object(line: str) -> bool:
    if not line.startswith("{"):
        return False
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _uncaught(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    every_line_logger("python").critical("uncaught exception", exc_info=(kind, error, traceback))


def _uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_type is not SystemExit:
        every_line_logger("python").critical(
            "uncaught exception in a thread",
            thread=args.thread.name if args.thread is not None else "",
            exc_info=(args.exc_type, args.exc_value, args.exc_traceback),
        )
