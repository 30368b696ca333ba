"""Whatever is wrong with the API is one line."""

import httpx
import pytest

from manyhands.cli.api_client import Api, ApiFailed, api_client

URL = "http://api.example:3000"


def answering(answer: httpx.Response) -> Api:
    return Api(httpx.AsyncClient(base_url=URL, transport=httpx.MockTransport(lambda _: answer)))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (httpx.Response(200, text="<html>"), f"{URL} is not the API: GET /queues has no JSON"),
        (httpx.Response(404, text="<html>"), "the API answered 404: <html>"),
        (httpx.Response(401, json={"detail": "a key is wanted"}), "a key is wanted (--key gives"),
        (httpx.Response(503, json=["odd"]), "the API answered 503: "),
    ],
)
async def test_another_answer_than_the_api_gives_is_told(answer: httpx.Response, said: str) -> None:
    with pytest.raises(ApiFailed) as caught:
        await answering(answer).get("/queues")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_an_api_that_is_not_there_is_told() -> None:
    async with api_client("http://127.0.0.1:1") as client:
        with pytest.raises(ApiFailed, match=r"no API at http://127\.0\.0\.1:1: .+--api names"):
            await client.get("/queues")
