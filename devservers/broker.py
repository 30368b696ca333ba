"""Our own broker as a process, for one test, demo or benchmark."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from devservers.checkout import PRODUCT_PATH
from devservers.processes import Child
from devservers.protocol_server import ProtocolServer

# What it takes from the environment; the caller's own must not leak in.
SETTINGS = ("BROKER_", "MANYHANDS_")


class BrokerServer(ProtocolServer):
    """`manyhands broker` of this checkout; `settings` are more of its variables."""

    name = "broker"

    def __init__(
        self,
        *,
        password: str | None = None,
        tls: bool = False,
        data_dir: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(password=password, tls=tls, data_dir=data_dir)
        self.settings = dict(settings or {})

    def _start_child(self, ports: Sequence[int]) -> Child:
        port, web_port = ports
        env = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}
        env |= {
            "PYTHONPATH": PRODUCT_PATH,
            "BROKER_BIND": f"127.0.0.1:{port}",
            "BROKER_HTTP_BIND": f"127.0.0.1:{web_port}",
            "BROKER_DATA": str(self.data_dir / "db"),
            "BROKER_PASSWORD": self.password or "",
        }
        if self.tls:
            env["BROKER_TLS_CERT"] = str(self.data_dir / "conf" / "public.cert.pem")
            env["BROKER_TLS_KEY"] = str(self.data_dir / "conf" / "private.key.pem")
        return Child(
            [sys.executable, "-m", "manyhands.broker"],
            log=self.data_dir / "broker.log",
            env=env | self.settings,
        )

    def _ready_line(self, port: int) -> str:
        return f'"address": "127.0.0.1:{port}"'
