"""A fetcher that answers as a test says."""

import asyncio
from collections.abc import Callable

from manyhands.shared.urls import Url
from manyhands.worker.net.fetcher import Answer, FetchError, Phases


def answer(
    status: int = 200,
    body: bytes = b"",
    *,
    content_type: str = "text/plain",
    location: str | None = None,
    cache_control: str = "",
    retry_after: str | None = None,
    is_truncated: bool = False,
) -> Answer:
    return Answer(
        url="",
        status=status,
        content_type=content_type,
        location=location,
        retry_after=retry_after,
        robots_tag="",
        cache_control=cache_control,
        body=body,
        is_truncated=is_truncated,
        wire_bytes=len(body),
        phases=Phases(),
    )


class ScriptedFetcher:
    """Answers by URL, 404 for all others. State: what was asked for, and how; and what the answers
    wait for, if anything."""

    def __init__(self, answers: dict[str, Answer | FetchError]) -> None:
        self.answers = answers
        self.urls: list[str] = []
        self.user_agents: list[str] = []
        self.max_bytes: list[int] = []
        self.asked = asyncio.Event()
        self.answers_after: asyncio.Event | None = None

    async def get(
        self,
        url: Url,
        *,
        user_agent: str,
        max_bytes: int,
        check: Callable[[], None],
        wants_body: Callable[[int, str], bool],
    ) -> Answer:
        check()
        self.urls.append(url.text)
        self.user_agents.append(user_agent)
        self.max_bytes.append(max_bytes)
        self.asked.set()
        if self.answers_after is not None:
            await self.answers_after.wait()
        found = self.answers.get(url.text, answer(404))
        if isinstance(found, FetchError):
            raise found
        if not wants_body(found.status, found.content_type):
            found.body = b""
        return found
