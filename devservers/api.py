"""Our own ingest service as a process, in front of one of the servers."""

import os
import sys
from collections.abc import Mapping, Sequence

from devservers.checkout import PRODUCT_PATH
from devservers.http_server import HttpServer
from devservers.processes import Child
from devservers.protocol_server import ProtocolServer

# What the service takes from the environment; the caller's own must not leak in.
SETTINGS = ("API_", "BATCH_", "FAKTORY_", "CRAWL_", "MANYHANDS_", "RESULTS")


class ApiServer(HttpServer):
    """`manyhands api` of this checkout; `settings` are more of its variables, FAKTORY_URL among
    them where the broker is none of ours."""

    name = "api"

    def __init__(
        self, broker: ProtocolServer | None, *, settings: Mapping[str, str] | None = None
    ) -> None:
        super().__init__()
        self._broker = broker
        self._settings = dict(settings or {})

    def _start_child(self, ports: Sequence[int]) -> Child:
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)
        }
        env = inherited | {"PYTHONPATH": PRODUCT_PATH, "API_BIND": f"127.0.0.1:{ports[0]}"}
        if self._broker is not None:
            env |= {"FAKTORY_URL": self._broker.url, "FAKTORY_WEB_URL": self._broker.web_url}
            if self._broker.ca_file is not None:
                env["FAKTORY_CA_FILE"] = str(self._broker.ca_file)
        return Child(
            [sys.executable, "-m", "manyhands.api"], log=self.log, env=env | self._settings
        )
