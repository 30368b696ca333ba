"""POST /jobs: many jobs in one request. Plain ASGI: a list of a hundred costs a quarter more with
FastAPI. OpenAPI, keys and errors are the same as everywhere (app.py, guard.py, problems.py)."""

from collections.abc import MutableMapping
from typing import Any

import orjson

from manyhands.api.bodies import Receive
from manyhands.api.body_lines import NDJSON, body_lines
from manyhands.api.guard import RequestHeaders
from manyhands.api.intake import EncodedJob, query_options, split_list
from manyhands.api.keys import Key
from manyhands.api.parts import Parts, pay_now
from manyhands.api.problems import Problem, bad_request
from manyhands.api.replies import Send, send_json
from manyhands.api.stream import JobStream, ReadLine, push_list
from manyhands.api.whole_body import whole_body

PATH = "/jobs"
MAX_LIST_JOBS = 10_000
PLAIN = "text/plain"


def is_many_jobs(scope: MutableMapping[str, Any]) -> bool:
    path: str = scope["path"]
    return path == PATH and scope["method"] == "POST"


async def take_jobs(
    parts: Parts,
    key: Key,
    visit: RequestHeaders,
    scope: MutableMapping[str, Any],
    receive: Receive,
    send: Send,
) -> None:
    """Of a JSON list all jobs must be in order, else none is taken; of NDJSON and plain text each
    line stands for itself. Raises Problem or ClientGone."""
    parts.refuse_if_draining()
    parts.require_broker()
    query: bytes = scope["query_string"]
    if visit.content_type == PLAIN:
        options = query_options(query)
        answer = await _take_lines(
            *(parts, key, visit, receive),
            lambda line, now: parts.intake.url(line, options, now),
        )
    elif query:
        raise bad_request("options stand in each job, not in the query")
    elif visit.content_type in NDJSON:
        answer = await _take_lines(parts, key, visit, receive, parts.intake.line)
    else:
        answer = await _take_list(parts, key, visit, receive)
    await send_json(send, 202, orjson.dumps(answer))


async def _take_list(
    parts: Parts, key: Key, visit: RequestHeaders, receive: Receive
) -> dict[str, Any]:
    limit = parts.settings.max_body_bytes
    async with whole_body(parts, key, visit, receive, limit) as body:
        items = split_list(body)
        if len(items) > MAX_LIST_JOBS:
            raise Problem(413, f"a list has at most {MAX_LIST_JOBS} jobs: send more as NDJSON")
        jobs = await push_list(
            parts.client, items, parts.intake.item, lambda count: pay_now(key, count)
        )
    parts.metrics.jobs.labels("list").inc(len(jobs))
    return {"accepted": len(jobs), "jobs": [{"jid": job.jid, "queue": job.queue} for job in jobs]}


async def _take_lines(
    parts: Parts,
    key: Key,
    visit: RequestHeaders,
    receive: Receive,
    read_line: ReadLine[EncodedJob],
) -> dict[str, Any]:
    with body_lines(parts, key, visit, receive) as body:
        stream = JobStream(parts.client, read_line, body.pay, body.stop)
        try:
            report = await stream.take(body.chunks, body.unpacker, body.lines)
        finally:
            parts.metrics.jobs.labels("stream").inc(stream.report.accepted)
    return report.result()
