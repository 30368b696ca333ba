"""The API over HTTP. A refusal becomes an error with the API's own words."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import httpx

from manyhands.shared.errors import ManyhandsError
from manyhands.shared.settings.addresses import is_loopback

DEFAULT_URL = "http://127.0.0.1:3000"
ANSWER_TIMEOUT_S = 30.0
NOT_SET_UP = HTTPStatus.NOT_IMPLEMENTED


class ApiFailed(ManyhandsError):
    """The API refused, or could not be reached. `problem` is its whole answer."""

    def __init__(
        self, message: str, status: int = 0, problem: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.problem = problem or {}


class Api:
    """State: the connections."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def get(self, path: str, **query: str | int) -> Any:
        return await self.ask("GET", path, params=query)

    async def post(self, path: str, body: object, headers: Mapping[str, str] | None = None) -> Any:
        return await self.ask("POST", path, json=body, headers=headers)

    async def text(self, path: str) -> str:
        return (await self.answer(path)).text

    async def answer(self, path: str, **query: str | int) -> httpx.Response:
        """Whole, with its headers. Raises ApiFailed."""
        return await self._ask("GET", path, params=query)

    async def ask(self, method: str, path: str, **how: Any) -> Any:
        """The JSON of the answer. Raises ApiFailed."""
        answer = await self._ask(method, path, **how)
        try:
            return answer.json()
        except ValueError:
            raise ApiFailed(
                f"{self._client.base_url} is not the API: {method} {path} has no JSON in its answer"
            ) from None

    async def _ask(self, method: str, path: str, **how: Any) -> httpx.Response:
        try:
            answer = await self._client.request(method, path, **how)
        except httpx.TransportError as error:
            raise ApiFailed(
                f"no API at {self._client.base_url}: {str(error) or type(error).__name__} "
                "(`manyhands up` starts one; --api names another)"
            ) from error
        if not answer.is_success:
            raise _refused(answer)
        return answer


@asynccontextmanager
async def api_client(url: str, key: str | None = None) -> AsyncIterator[Api]:
    # Calls to this machine must not go through a proxy.
    is_here = is_loopback(urlsplit(url).hostname or "")
    async with httpx.AsyncClient(
        base_url=url,
        headers={"X-API-Key": key} if key else {},
        timeout=ANSWER_TIMEOUT_S,
        trust_env=not is_here,
    ) as client:
        yield Api(client)


def _refused(answer: httpx.Response) -> ApiFailed:
    try:
        problem = answer.json()
        detail = problem["detail"]
    except (ValueError, KeyError, TypeError):
        problem, detail = {}, answer.text[:500] or answer.reason_phrase
    message = f"the API answered {answer.status_code}: {detail}"
    if answer.status_code == HTTPStatus.UNAUTHORIZED:
        message += " (--key gives one here)"
    return ApiFailed(message, answer.status_code, problem)
