"""An nginx that serves a directory, and what was asked of it by whom."""

import json
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

from devservers.debian import nginx
from devservers.http_server import HttpServer
from devservers.processes import Child

_TYPES = {
    "text/html": "html htm",
    "text/css": "css",
    "text/plain": "txt",
    "text/javascript": "js",
    "image/png": "png",
    "image/gif": "gif",
    "image/svg+xml": "svg",
}
# Parts of the standard modules, which would have places outside of its directory.
_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


class Asked(NamedTuple):
    """One request that was answered; `agent` is the first word of the User-Agent."""

    agent: str
    method: str
    path: str
    status: int
    content_type: str


class NginxServer(HttpServer):
    """`site` is what it serves. Not asked for directories: only for files, and index.html."""

    name = "nginx"
    probe_path = "/"

    def __init__(self, site: Path) -> None:
        super().__init__()
        self._site = site

    def asked(self) -> list[Asked]:
        """All requests so far."""
        found = []
        for line in self._access_log.read_text().splitlines():
            told = json.loads(line)
            agent = told["agent"].partition("/")[0]
            found.append(
                Asked(agent, told["method"], told["path"], int(told["status"]), told["type"])
            )
        return found

    def pages_of(self, agent: str) -> set[str]:
        """HTML that it was given, by path: queries mean nothing here, and fragments do not come."""
        return {
            asked.path.partition("?")[0]
            for asked in self.asked()
            if asked.agent == agent
            and asked.method == "GET"
            and asked.status == HTTPStatus.OK
            and asked.content_type.partition(";")[0] == "text/html"
        }

    @property
    def _access_log(self) -> Path:
        return self.data_dir / "access.log"

    def _start_child(self, ports: Sequence[int]) -> Child:
        place = self.data_dir
        types = "".join(f"{name} {endings};\n" for name, endings in _TYPES.items())
        temporary = "".join(f"{name}_temp_path {place}/{name};\n" for name in _TEMPORARY)
        told = ", ".join(
            f'"{name}": "${variable}"'
            for name, variable in {
                "agent": "http_user_agent",
                "method": "request_method",
                "path": "request_uri",
                "status": "status",
                "type": "sent_http_content_type",
            }.items()
        )
        settings = place / "nginx.conf"
        settings.write_text(
            f"daemon off;\nmaster_process off;\npid {place}/pid;\nerror_log stderr;\n"
            "events { worker_connections 512; }\n"
            f"http {{\ntypes {{\n{types}}}\n{temporary}"
            "default_type application/octet-stream;\n"
            f"log_format told escape=json '{{{told}}}';\naccess_log {self._access_log} told;\n"
            f"server {{ listen 127.0.0.1:{ports[0]}; root {self._site}; }}\n}}\n"
        )
        # The second: before the settings are read, it writes to where it was packed for.
        command: list[str | Path] = [nginx(), "-e", "stderr", "-p", place, "-c", settings]
        return Child(command, log=self.log, env={})
