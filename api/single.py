"""POST /jobs/{jobtype}: the busiest route, so it is plain ASGI. OpenAPI, keys and errors are the
same as everywhere (app.py, guard.py, problems.py)."""

from collections.abc import MutableMapping
from typing import Any

from manyhands.api.bodies import Receive, read_body
from manyhands.api.guard import RequestHeaders
from manyhands.api.intake import query_options
from manyhands.api.keys import Key
from manyhands.api.parts import Parts, pay_now
from manyhands.api.problems import Problem, too_large
from manyhands.api.replies import Send, send_json
from manyhands.shared.jobs import utc_now

PREFIX = "/jobs/"
# A job is an argument list, not a file.
MAX_JOB_BYTES = 1024 * 1024


def is_single_job(scope: MutableMapping[str, Any]) -> bool:
    path: str = scope["path"]
    return scope["method"] == "POST" and path.startswith(PREFIX) and "/" not in path[6:]


async def take_job(
    parts: Parts,
    key: Key,
    visit: RequestHeaders,
    scope: MutableMapping[str, Any],
    receive: Receive,
    send: Send,
) -> None:
    """Answer when the broker has the job. Raises Problem or ClientGone."""
    parts.refuse_if_draining()
    if visit.content_encoding not in ("", "identity"):
        raise Problem(415, "a single job is taken as it is, not packed")
    if visit.content_length is not None and visit.content_length > MAX_JOB_BYTES:
        raise too_large("the body", MAX_JOB_BYTES)
    pay_now(key)
    size = MAX_JOB_BYTES if visit.content_length is None else visit.content_length
    body = await read_body(receive, MAX_JOB_BYTES, lambda: parts.bulk.hold(key, size))
    options = query_options(scope["query_string"])
    job = parts.intake.job(scope["path"][len(PREFIX) :], body, options, utc_now())
    await parts.batcher.push(job)
    jid = job.jid.encode()
    answer = b'{"jid":"%b","queue":"%b"}' % (jid, job.queue.encode())
    await send_json(send, 202, answer, ((b"location", b"/jobs/" + jid),))
