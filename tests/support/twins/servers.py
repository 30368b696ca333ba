"""Both sides of a comparison: a connection, and all that the server holds, in the same words.

Times that the servers chose become NOW; all other values stay, so that they have to be equal.
"""

import json
import re
import sqlite3
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import redis

from devservers import BrokerServer, FaktoryServer
from manyhands.broker.directory import DATABASE
from manyhands.broker.schema import SEQUENCE_BITS
from tests.support.raw_client import RawClient, RawConnection

SETS = ("scheduled", "retries", "dead")
NOW = "<now>"
MEASURED = "<measured>"
CLOSED = "<closed>"
COUNTS = ("uptime", "connections", "command_count", "used_memory_mb")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_NEARLY = timedelta(days=2)
State = dict[str, Any]


def told(line: str, answer: str | None) -> Any:
    """An answer as it is compared: JSON as what it says, of measurements only that they are."""
    if answer is None or not answer.startswith(("{", "[")):
        return answer
    content = without_times(json.loads(answer))
    if line.startswith("QUEUE "):
        return {name: MEASURED if value else value for name, value in content.items()}
    return _steady(content) if line.startswith("INFO") else content


def _steady(info: dict[str, Any]) -> dict[str, Any]:
    """Without what depends on the moment, or on what was done to the server before."""
    del info["server_utc_time"]
    server = info["server"]
    server |= {name: MEASURED for name in COUNTS if isinstance(server.get(name), int)}
    for task in info["faktory"]["tasks"].values():
        task |= {name: MEASURED for name, value in task.items() if isinstance(value, int | float)}
    return info


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_times(item) for name, item in value.items()}
    if isinstance(value, list):
        return [without_times(item) for item in value]
    if isinstance(value, str) and _TIME.fullmatch(value):
        moment = datetime.fromisoformat(value)
        return NOW if abs(moment - datetime.now(UTC)) < _NEARLY else value
    return value


def _in_order(payloads: Iterable[bytes | str]) -> list[Any]:
    return sorted((without_times(json.loads(text)) for text in payloads), key=as_text)


def as_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


class Side:
    """One of the two. State: a connection to look with, and the one under test."""

    def __init__(self, server: FaktoryServer | BrokerServer) -> None:
        self._server = server
        self.looks = RawClient(server.url)
        self._raw: RawConnection | None = None

    def begin(self) -> None:
        """Nothing is left of earlier sequences."""
        self.end()
        for line in ("QUEUE REMOVE *", "FLUSH", 'PUSH {"retry":25}'):
            self.looks.call(line)
        self._raw = RawConnection(self._server.url)

    def end(self) -> None:
        if self._raw is not None:
            self._raw.close()
            self._raw = None

    def call(self, line: str) -> Any:
        assert self._raw is not None
        try:
            return told(line, self._raw.call(line))
        except (ConnectionError, BrokenPipeError):
            return CLOSED

    def restore_default(self) -> None:
        """The job is refused, but a real Faktory has its `retry` already."""
        self.looks.call('PUSH {"retry":25}')

    def close(self) -> None:
        self.end()
        self.looks.close()


class FaktorySide(Side):
    """`held` are the jids in hand at the last look, in the order in which they went out."""

    def __init__(self, server: FaktoryServer) -> None:
        super().__init__(server)
        self.held: list[str] = []
        self._redis = redis.Redis(unix_socket_path=str(server.data_dir / "db" / "redis.sock"))

    def state(self) -> State:
        pipe = self._redis.pipeline(transaction=False)
        names = sorted(cast("list[bytes]", self._redis.keys("q:*")))
        for name in names:
            pipe.lrange(name, 0, -1)
        for kind in (*SETS, "working"):
            pipe.zrange(kind, 0, -1)
        pipe.smembers("paused")
        pipe.mget("processed", "failures")
        *found, paused, counts = pipe.execute()
        queued, sets = found[: len(names)], found[len(names) :]
        reservations = [json.loads(member) for member in sets[3]]
        reservations.sort(key=lambda reservation: str(reservation["reserved_at"]))
        in_hand = [json.dumps(reservation["job"]) for reservation in reservations]
        self.held = [reservation["job"]["jid"] for reservation in reservations]
        return {
            "queues": {
                name.decode()[2:]: len(jobs) for name, jobs in zip(names, queued, strict=True)
            },
            "jobs": _in_order([*(job for jobs in queued for job in jobs), *in_hand]),
            **{kind: _in_order(members) for kind, members in zip(SETS, sets, strict=False)},
            "working": len(in_hand),
            "paused": sorted(name.decode() for name in paused),
            "processed": int(counts[0] or 0),
            "failures": int(counts[1] or 0),
        }

    def close(self) -> None:
        super().close()
        self._redis.close()


class BrokerSide(Side):
    def __init__(self, server: BrokerServer) -> None:
        super().__init__(server)
        path = server.data_dir / "db" / DATABASE
        self._database = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)

    def state(self) -> State:
        read = self._database.execute
        info = self.looks.info()["faktory"]
        queued = read(
            f"SELECT payload FROM jobs JOIN queues ON queues.id = jobs.key >> {SEQUENCE_BITS}"
        )
        return {
            "queues": {name: size for name, size in info["queues"].items() if size},
            "jobs": _in_order(payload for (payload,) in queued),
            **{
                kind: _in_order(
                    payload
                    for (payload,) in read("SELECT payload FROM sets WHERE kind = ?", (kind,))
                )
                for kind in SETS
            },
            "working": info["sets"]["working"],
            "paused": sorted(name for (name,) in read("SELECT name FROM queues WHERE is_paused")),
            "processed": info["total_processed"],
            "failures": info["total_failures"],
        }

    def close(self) -> None:
        super().close()
        self._database.close()
