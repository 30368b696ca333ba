"""What our broker holds: figures by INFO, jobs straight from its database."""

import json
import sqlite3
from typing import Any

from devservers import BrokerServer
from manyhands.broker.directory import DATABASE
from manyhands.broker.schema import SEQUENCE_BITS
from manyhands.worker.source.lane_plan import plan_broker_lanes
from tests.support.raw_client import RawClient
from tests.support.server_state import RegisteredWorker


class BrokerState:
    """As ServerState. Connects anew for each look, because tests kill the broker."""

    def __init__(self, server: BrokerServer) -> None:
        self._server = server

    def close(self) -> None:
        """Nothing is held open."""

    @staticmethod
    def fetch_lanes(connections: int, slots: int) -> int:
        return plan_broker_lanes(connections, slots).fetch

    @property
    def retries(self) -> list[dict[str, Any]]:
        return self._set("retries")

    @property
    def scheduled(self) -> list[dict[str, Any]]:
        return self._set("scheduled")

    @property
    def dead(self) -> list[dict[str, Any]]:
        return self._set("dead")

    @property
    def working(self) -> list[dict[str, Any]]:
        """One for each job in hand; the broker tells how many there are, not which."""
        return [{}] * self.in_hand

    @property
    def in_hand(self) -> int:
        return int(self.info()["sets"]["working"])

    @property
    def stored_reservations(self) -> int:
        """Jobs in hand of which the database knows it."""
        return int(self._rows("SELECT count(*) FROM reservations WHERE is_held")[0][0])

    @property
    def processed(self) -> int:
        return int(self.info()["total_processed"])

    @property
    def failures(self) -> int:
        return int(self.info()["total_failures"])

    @property
    def is_empty(self) -> bool:
        """No job is left anywhere, dead or alive."""
        info = self.info()
        return not any(info["sets"].values()) and not info["total_enqueued"]

    def info(self) -> dict[str, Any]:
        with RawClient(self._server.url) as raw:
            figures: dict[str, Any] = raw.info()["faktory"]
        return figures

    def queue(self, name: str) -> list[dict[str, Any]]:
        """The jobs that wait. The database does not tell those in hand from them for the first
        second, but they were the oldest."""
        size = self.info()["queues"].get(name, 0)
        rows = self._rows(
            f"SELECT payload FROM jobs JOIN queues ON queues.id = jobs.key >> {SEQUENCE_BITS}"
            " WHERE name = ? ORDER BY key",
            name,
        )
        return [json.loads(payload) for (payload,) in rows[len(rows) - size :]]

    def workers(self, _pid: int) -> list[RegisteredWorker]:
        """All of them: the broker tells how many there are, not whose."""
        return [RegisteredWorker("", 0, False)] * self.info()["tasks"]["Workers"]["size"]

    def _set(self, kind: str) -> list[dict[str, Any]]:
        rows = self._rows("SELECT payload FROM sets WHERE kind = ? ORDER BY at", kind)
        return [json.loads(payload) for (payload,) in rows]

    def _rows(self, sql: str, *parameters: Any) -> list[Any]:
        path = self._server.data_dir / "db" / DATABASE
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)
        try:
            return connection.execute(sql, parameters).fetchall()
        finally:
            connection.close()
