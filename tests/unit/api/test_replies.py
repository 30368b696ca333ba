"""Raw answers, and the headers that all answers carry."""

from collections.abc import MutableMapping
from typing import Any

from manyhands.api.problems import Problem
from manyhands.api.replies import SECURITY_HEADERS, send_json, send_problem, with_security_headers


class Sent:
    """What an application sent."""

    def __init__(self) -> None:
        self.messages: list[MutableMapping[str, Any]] = []

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        self.messages.append(message)

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.messages[0]["headers"])


async def test_an_answer_has_its_length_and_the_headers_that_all_carry():
    sent = Sent()
    await send_json(sent, 202, b'{"a":1}', ((b"location", b"/x"),))
    start, body = sent.messages
    assert (start["status"], body["body"]) == (202, b'{"a":1}')
    assert sent.headers[b"content-length"] == b"7"
    assert sent.headers[b"content-type"] == b"application/json"
    assert sent.headers[b"location"] == b"/x"
    assert set(SECURITY_HEADERS) <= set(start["headers"])


async def test_a_problem_is_sent_with_its_own_headers_and_those_of_all():
    sent = Sent()
    problem = Problem(429, "slow down", {}, 3)
    await send_problem(sent, problem)
    start, body = sent.messages
    assert (start["status"], body["body"]) == (429, problem.body())
    assert sent.headers[b"retry-after"] == b"3"
    assert sent.headers[b"content-type"] == b"application/problem+json"
    assert set(SECURITY_HEADERS) <= set(start["headers"])


async def test_the_frameworks_answers_get_them_too():
    sent = Sent()
    send = with_security_headers(sent)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]})
    await send({"type": "http.response.body", "body": b""})
    assert set(sent.messages[0]["headers"]) == {(b"a", b"b"), *SECURITY_HEADERS}


def test_a_page_can_neither_frame_nor_read_nor_keep_an_answer():
    headers = dict(SECURITY_HEADERS)
    assert headers[b"x-content-type-options"] == b"nosniff"
    assert b"frame-ancestors 'none'" in headers[b"content-security-policy"]
    assert headers[b"cache-control"] == b"no-store"
    assert headers[b"cross-origin-resource-policy"] == b"same-origin"
