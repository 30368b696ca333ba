"""What a stranger sends and sees, over a raw connection."""

import json
from typing import Any

from manyhands.shared.jobs import new_jid
from tests.contract.conftest import Server
from tests.support.raw_client import RawClient


def job(queue: str, **fields: Any) -> dict[str, Any]:
    return {"jid": new_jid(), "jobtype": "any", "args": [], "queue": queue} | fields


def push(raw: RawClient, wire: dict[str, Any]) -> str | None:
    return raw.call("PUSH " + json.dumps(wire))


def fetch(raw: RawClient, queue: str) -> Any:
    return json.loads(raw.call(f"FETCH {queue}") or "null")


def ack(raw: RawClient, jid: str) -> str | None:
    return raw.call("ACK " + json.dumps({"jid": jid}))


def queued(raw: RawClient, queue: str) -> int:
    return int(raw.info()["faktory"]["queues"].get(queue, 0))


def working(raw: RawClient) -> int:
    return int(raw.info()["faktory"]["sets"]["working"])


def push_line(**fields: Any) -> str:
    job = {"jid": new_jid(), "jobtype": "any", "args": []} | fields
    return "PUSH " + json.dumps(job)


def refusal(server: Server, line: str) -> str:
    """What the server has against this line; afterwards it still serves the connection."""
    with RawClient(server.url) as stranger:
        answer = stranger.call(line)
        assert answer is not None
        assert answer.startswith("-ERR "), answer
        assert stranger.info()["server"]["connections"] >= 1
    return answer.removeprefix("-ERR ")


def json_line(verb: str, **fields: Any) -> str:
    return f"{verb} {json.dumps(fields)}"
