"""A service that speaks HTTP, as a process on a free port of the loopback."""

import http.client
from pathlib import Path

from devservers.processes import Child
from devservers.server import Server

# Seconds for an answer; it comes at once or not at all.
ANSWER_DEADLINE = 2.0


class HttpServer(Server):
    """Subclasses say how it is launched. Its log file is in a directory that goes with it."""

    name = "HTTP server"
    # What is asked to see whether it is there; any answer but a 5xx will do.
    probe_path = "/healthz"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self.data_dir / "service.log"

    def _is_ready(self, child: Child, port: int) -> bool:
        del child
        status = self._answer(port)
        return status is not None and status < http.HTTPStatus.INTERNAL_SERVER_ERROR

    def _answer(self, port: int) -> int | None:
        """Return the status with which the probe is answered, if it is."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_DEADLINE)
        try:
            connection.request("GET", self.probe_path)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
