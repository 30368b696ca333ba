"""Raw answers: their headers, and a last look at a client that is still sending."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from api.problems import Problem
from api.replies import (
    LINGER_S,
    SECURITY_HEADERS,
    BodyWatch,
    linger_if,
    send_json,
    send_problem,
    with_security_headers,
)
from tests.support.virtual_time import run_in_virtual_time
from tests.unit.api.requests import body_of, vanishing

BODY = {"type": "http.response.body", "body": b"answer"}


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


async def linger(watch: BodyWatch, *, is_wanted: bool = True) -> list[MutableMapping[str, Any]]:
    sent = Sent()
    send = linger_if(lambda: is_wanted, watch, sent)
    await send({"type": "http.response.start", "status": 503, "headers": []})
    await send(dict(BODY))
    return sent.messages[1:]


@pytest.mark.parametrize("is_wanted", [True, False])
def test_who_has_sent_everything_is_answered_at_once(is_wanted):
    async def run() -> None:
        watch = BodyWatch(body_of(b"x"))
        await watch.receive()
        *_, last = await linger(watch, is_wanted=is_wanted)
        assert not last.get("more_body")
        assert asyncio.get_running_loop().time() == 0

    run_in_virtual_time(run())


def test_the_whole_answer_is_out_before_the_rest_of_the_body_is_thrown_away():
    async def run() -> None:
        answered, last = await linger(BodyWatch(body_of(b"a", b"b", b"c")))
        assert answered == BODY | {"more_body": True}
        assert last == {"type": "http.response.body", "body": b""}
        assert asyncio.get_running_loop().time() == 0

    run_in_virtual_time(run())


def test_who_sends_for_ever_is_cut_off():
    async def run() -> None:
        await linger(BodyWatch(body_of(b"a", b"b", ends=False)))
        assert asyncio.get_running_loop().time() == pytest.approx(LINGER_S)

    run_in_virtual_time(run())


def test_who_leaves_is_not_waited_for():
    async def run() -> None:
        await linger(BodyWatch(vanishing(b"a")))
        assert asyncio.get_running_loop().time() == 0

    run_in_virtual_time(run())


def test_nobody_is_waited_for_while_the_connection_stays():
    async def run() -> None:
        (message,) = await linger(BodyWatch(body_of(b"a", ends=False)), is_wanted=False)
        assert message == BODY

    run_in_virtual_time(run())
