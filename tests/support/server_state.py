"""What a real Faktory holds: its sets and queues straight from its Redis, its workers from its
web pages."""

import json
import re
from dataclasses import dataclass
from typing import Any, cast

import httpx
import redis

from devservers import FaktoryServer
from manyhands.worker.source.lane_plan import plan_lanes

# One row of the page /busy: the id, then "host:pid", then labels and maybe "quiet".
WORKER_ROW = re.compile(
    r"<td>\s*<code>\s*(?P<wid>\w+)\s*</code>\s*</td>\s*"
    r"<td>\s*<code>[^<]*:(?P<pid>\d+)</code>(?P<badges>.*?)</td>",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class RegisteredWorker:
    wid: str
    pid: int
    is_quiet: bool


class ServerState:
    """Looks, and presses buttons on the web page; never writes to Redis."""

    def __init__(self, server: FaktoryServer) -> None:
        self._redis = redis.Redis(unix_socket_path=str(server.data_dir / "db" / "redis.sock"))
        self._web = httpx.Client(base_url=server.web_url, trust_env=False, timeout=20)

    def close(self) -> None:
        self._redis.close()
        self._web.close()

    @staticmethod
    def fetch_lanes(connections: int, slots: int) -> int:
        """How many a worker opens here."""
        return plan_lanes(connections, slots, 0).fetch

    @property
    def retries(self) -> list[dict[str, Any]]:
        return self._sorted_set("retries")

    @property
    def scheduled(self) -> list[dict[str, Any]]:
        return self._sorted_set("scheduled")

    @property
    def dead(self) -> list[dict[str, Any]]:
        return self._sorted_set("dead")

    @property
    def working(self) -> list[dict[str, Any]]:
        """The reserved jobs."""
        return [reservation["job"] for reservation in self._sorted_set("working")]

    @property
    def in_hand(self) -> int:
        return len(self.working)

    @property
    def processed(self) -> int:
        """Jobs that ended, well or badly."""
        return int(cast("bytes | None", self._redis.get("processed")) or 0)

    @property
    def failures(self) -> int:
        return int(cast("bytes | None", self._redis.get("failures")) or 0)

    @property
    def is_empty(self) -> bool:
        """No job is left anywhere, dead or alive."""
        sets = self.retries or self.scheduled or self.dead or self.working
        queues = cast("list[bytes]", self._redis.keys("q:*"))
        return not sets and not queues

    def queue(self, name: str) -> list[dict[str, Any]]:
        members = cast("list[bytes]", self._redis.lrange(f"q:{name}", 0, -1))
        return [json.loads(member) for member in members]

    def workers(self, pid: int) -> list[RegisteredWorker]:
        """The worker ids under which a process is registered."""
        page = self._web.get("/busy").raise_for_status().text
        processes = page.split('class="workers', 1)[0]
        found = [
            RegisteredWorker(row["wid"], int(row["pid"]), ">quiet<" in row["badges"])
            for row in WORKER_ROW.finditer(processes)
        ]
        return [worker for worker in found if worker.pid == pid]

    def press(self, wid: str, signal: str) -> None:
        """Press Quiet or Stop beside one worker, as a browser would."""
        response = self._web.post(
            "/busy",
            data={"wid": wid, "signal": signal},
            headers={"Sec-Fetch-Site": "same-origin", "Origin": str(self._web.base_url)},
        )
        assert response.status_code == httpx.codes.FOUND, response.text

    def _sorted_set(self, name: str) -> list[dict[str, Any]]:
        members = cast("list[bytes]", self._redis.zrange(name, 0, -1))
        return [json.loads(member) for member in members]
