"""Asks a worker service for its loops' lag while it works, and for its count of jobs afterwards."""

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from loadtest.lab.service_view import ask, read_figures, worst_lag_s
from loadtest.lib.errors import RunError
from loadtest.lib.processes import listening_port

# The service's figures are renewed every five seconds: so none is missed.
LOOK_EVERY_S = 1.0
SETTLE_TIMEOUT_S = 12.0
SETTLE_LOOK_S = 0.1


class LagWatch:
    """State: the longest lag that was seen, as the 99th percentile of five seconds."""

    def __init__(self, jobs: int, ahead: int) -> None:
        """`jobs` are to be done, beside those that went ahead of them."""
        self._ahead = ahead
        self._expected = ahead + jobs
        self.p99_ms = 0.0

    @contextmanager
    def beside(self, pid: int) -> Iterator[None]:
        """Look while the service with this pid works; then wait for figures with every job."""
        port = listening_port(pid)
        if port is None:
            raise RunError("the worker service does not listen")
        is_over = threading.Event()
        thread = threading.Thread(target=self._watch, args=(port, is_over), daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()
        self._settle(port)

    def _watch(self, port: int, is_over: threading.Event) -> None:
        while not is_over.wait(LOOK_EVERY_S):
            try:
                self._look(port)
            except (OSError, http.client.HTTPException):
                # It is busy; it will answer at the next look.
                continue

    def _settle(self, port: int) -> None:
        deadline_s = time.monotonic() + SETTLE_TIMEOUT_S
        while (found := self._look(port)) != (self._expected, 0):
            if time.monotonic() > deadline_s:
                raise RunError(
                    f"the service itself counts {found[0]} jobs done and {found[1]} that ended "
                    f"otherwise, not {self._expected} and 0"
                )
            time.sleep(SETTLE_LOOK_S)

    def _look(self, port: int) -> tuple[int, int]:
        """Return how many jobs the service has done, and how many ended otherwise."""
        figures = read_figures(ask(port, "/metrics").decode()).values()
        self.p99_ms = max(self.p99_ms, worst_lag_s(figures, self._ahead) * 1000)
        return sum(one.done for one in figures), sum(one.not_done for one in figures)
